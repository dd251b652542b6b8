// Server-sent events over fetch: EventSource cannot POST, and tells nothing about refusals.
import { parseExactly } from "./numbers.js";
import { csrf, problem, reach } from "./page.js";
import { sitePath } from "./site.js";

/** @typedef {{seq?: number, type: string, at?: string, data: any}} StreamEvent */
/** @typedef {{on: (event: StreamEvent) => void, signal?: AbortSignal}} Listener */

/**
 * Sends a message and calls `on` for each event. Resolves when the run has ended; resumes when the line breaks.
 * @param {string} path below /api/v1/ @param {Record<string, any>} body @param {Listener & {opened?: (ids: {run: string, session: string}) => void}} listener
 */
export async function converse(path, body, { on, opened, signal }) {
  const text = JSON.stringify(body);
  const first = await open(sitePath(`/api/v1/${path}`), { method: "POST", body: text, key: keyOf(path + text), signal });
  unanswered.request = "";
  const run = first.headers.get("Muster-Run") ?? "";
  opened?.({ run, session: first.headers.get("Muster-Session") ?? "" });
  await follow(first, run, { on, signal });
}

/** The last message that was sent, until the server has answered. Sent again unchanged it is the same one, which the server may have stored. */
const unanswered = { request: "", key: "" };

/** @param {string} request its address and body */
function keyOf(request) {
  if (unanswered.request !== request) Object.assign(unanswered, { request, key: crypto.getRandomValues(new Uint32Array(4)).join("-") });
  return unanswered.key;
}

/** @param {string} run @param {Listener} listener */
export async function watch(run, { on, signal }) {
  await follow(await open(sitePath(`/api/v1/runs/${run}/stream`), { signal }), run, { on, signal });
}

/** @param {Response | null} response @param {string} run @param {Listener} listener */
async function follow(response, run, { on, signal }) {
  let last = 0;
  for (let tries = 0; ; tries += 1) {
    try {
      response ??= await open(sitePath(`/api/v1/runs/${run}/stream`), { signal, last });
      if (response.status === 204) return;
      for await (const event of events(response)) {
        if (event.seq) { last = event.seq; tries = 0; }
        on(event);
        if (event.type === "run.finished") return;
      }
    } catch (error) {
      if (signal?.aborted || error.status || tries > 8) throw error; // a refusal is final, a broken line is not
    }
    response = null;
    if (!navigator.onLine) { await new Promise((done) => addEventListener("online", done, { once: true })); tries = 0; }
    await new Promise((done) => setTimeout(done, Math.min(250 * 2 ** tries, 4000)));
  }
}

/** @param {string} url @param {RequestInit & {last?: number, key?: string}} options @returns {Promise<Response>} */
async function open(url, { last, key, ...options }) {
  const headers = /** @type {Record<string, string>} */ ({ Accept: "text/event-stream, application/json;q=0.5", "Content-Type": "application/json", "X-CSRFToken": csrf() });
  if (last) headers["Last-Event-ID"] = String(last);
  if (key) headers["Idempotency-Key"] = key;
  const response = await reach(url, { ...options, headers });
  if (!response.ok) throw problem(await response.json().catch(() => null), response);
  return response;
}

/** @param {Response} response @returns {AsyncGenerator<StreamEvent>} */
async function* events(response) {
  const reader = /** @type {ReadableStream<BufferSource>} */ (response.body).pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data) yield parseExactly(data);
    }
  }
}
