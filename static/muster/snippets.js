// The dialog “Copy as code” of the playground.
import { SITE } from "./site.js";

/**
 * Shows how a program says the same.
 * @param {{agent: HTMLInputElement, stream: HTMLElement, session: string | null}} column
 * @param {string} typed
 */
export function showSnippets(column, typed) {
  const name = column.agent.value.trim();
  const path = `/api/v1/${name ? `agents/${name}/` : ""}messages`;
  const message = typed || /** @type {HTMLElement[]} */ ([...column.stream.querySelectorAll(".say.user")]).at(-1)?.dataset.text || "Hello";
  const body = JSON.stringify({ message });
  put("curl", `curl ${SITE}${path} \\\n  -H "Authorization: Bearer $MUSTER_KEY" -H "Content-Type: application/json" \\\n  -d '${body.replaceAll("'", "'\\''")}'`);
  put("python", `import os\nimport httpx\n\nanswer = httpx.post(\n    "${SITE}${path}",\n    headers={"Authorization": f"Bearer {os.environ['MUSTER_KEY']}"},\n    json={"message": ${JSON.stringify(message)}},\n    timeout=90,\n)\nanswer.raise_for_status()\nprint(answer.json()["reply"]["text"])`);
  const socket = `${SITE.replace(/^http/, "ws")}/ws/sessions/${column.session ?? "SESSION"}/`;
  const first = column.session ? "" : "# Say something here first: then this holds the id of the conversation.\n";
  put("websocket", `${first}import asyncio, json, os\nimport websockets\n\nasync def main():\n    headers = {"Authorization": f"Bearer {os.environ['MUSTER_KEY']}"}\n    async with websockets.connect("${socket}", additional_headers=headers) as socket:\n        await socket.send(json.dumps({"type": "message", "text": ${JSON.stringify(message)}}))\n        async for frame in socket:\n            event = json.loads(frame)\n            print(event["type"], event.get("data"))\n            if event["type"] == "run.finished":\n                break\n\nasyncio.run(main())`);
  /** @type {HTMLDialogElement} */ (document.getElementById("snippets")).showModal();
}

/** @param {string} language @param {string} code */
function put(language, code) {
  const place = document.getElementById(`snippet-${language}`);
  if (place) place.textContent = code;
}
