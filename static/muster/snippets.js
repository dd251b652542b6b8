// The dialog “Copy as code” of the playground.
import { SITE } from "./site.js";

/** @typedef {{agent: HTMLInputElement, stream: HTMLElement, session: string | null}} Column of the playground */

/** Shows how a program says the same. @param {Column} column @param {string} typed the message that is not sent yet */
export function showSnippets(column, typed) {
  const name = column.agent.value.trim();
  const url = name ? `${SITE}/api/v1/agents/${name}/messages` : `${SITE}/api/v1/messages`;
  const message = typed || findLastMessage(column) || "Hello";
  fill("curl", writeCurl(url, message));
  fill("python", writePython(url, message));
  fill("websocket", writeWebSocket(column.session, message));
  /** @type {HTMLDialogElement} */ (document.getElementById("snippets")).showModal();
}

/** What the person said last in this column. @param {Column} column */
function findLastMessage({ stream }) {
  const messages = /** @type {HTMLElement[]} */ ([...stream.querySelectorAll(".say.user")]);
  return messages.at(-1)?.dataset.text;
}

/** @param {string} language @param {string} code */
function fill(language, code) {
  const place = document.getElementById(`snippet-${language}`);
  if (place) place.textContent = code;
}

/** @param {string} url @param {string} message */
function writeCurl(url, message) {
  // A quote ends the text of a shell, stands by itself, and begins the text anew.
  const body = JSON.stringify({ message }).replaceAll("'", "'\\''");
  return `curl ${url} \\
  -H "Authorization: Bearer $MUSTER_KEY" -H "Content-Type: application/json" \\
  -d '${body}'`;
}

/** @param {string} url @param {string} message */
function writePython(url, message) {
  return `import os
import httpx

answer = httpx.post(
    "${url}",
    headers={"Authorization": f"Bearer {os.environ['MUSTER_KEY']}"},
    json={"message": ${JSON.stringify(message)}},
    timeout=90,
)
answer.raise_for_status()
print(answer.json()["reply"]["text"])`;
}

/** @param {string | null} session null before the first message @param {string} message */
function writeWebSocket(session, message) {
  const url = `${SITE.replace(/^http/, "ws")}/ws/sessions/${session ?? "SESSION"}/`;
  const hint = session ? "" : "# Say something here first: then this holds the id of the conversation.\n";
  return `${hint}import asyncio, json, os
import websockets

async def main():
    headers = {"Authorization": f"Bearer {os.environ['MUSTER_KEY']}"}
    async with websockets.connect("${url}", additional_headers=headers) as socket:
        await socket.send(json.dumps({"type": "message", "text": ${JSON.stringify(message)}}))
        async for frame in socket:
            event = json.loads(frame)
            print(event["type"], event.get("data"))
            if event["type"] == "run.finished":
                break

asyncio.run(main())`;
}
