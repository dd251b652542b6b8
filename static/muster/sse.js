// Server-sent events over fetch: EventSource cannot POST, and tells nothing about refusals.
import { parseExactly } from "./numbers.js";
import { csrf, problem, reach } from "./page.js";
import { sitePath } from "./site.js";

/** @typedef {{seq?: number, type: string, at?: string, data: any}} StreamEvent */
/** @typedef {{on: (event: StreamEvent) => void, signal?: AbortSignal}} Listener */

const MOST_TRIES = 8;
const LONGEST_PAUSE_MS = 4000;

/**
 * Sends a message and calls `on` for each event. Resolves when the run has ended; resumes when the line breaks.
 * @param {string} path below /api/v1/ @param {Record<string, any>} body
 * @param {Listener & {opened?: (ids: {run: string, session: string}) => void}} listener
 */
export async function converse(path, body, { on, opened, signal }) {
  const text = JSON.stringify(body);
  const key = chooseKey(path + text);
  const response = await open(sitePath(`/api/v1/${path}`), { method: "POST", body: text, key, signal });
  unanswered.request = "";
  const run = response.headers.get("Muster-Run") ?? "";
  const session = response.headers.get("Muster-Session") ?? "";
  opened?.({ run, session });
  await follow(response, run, { on, signal });
}

/**
 * The last message that was sent, until the server has answered. Sent again unchanged it is the same one, which the
 * server may have stored.
 */
const unanswered = { request: "", key: "" };

/** The idempotency key of a message. @param {string} request its address and body */
function chooseKey(request) {
  if (unanswered.request !== request) {
    unanswered.request = request;
    unanswered.key = crypto.getRandomValues(new Uint32Array(4)).join("-");
  }
  return unanswered.key;
}

/** Calls `on` for each event of a run, from its first to its last. @param {string} run @param {Listener} listener */
export async function watch(run, { on, signal }) {
  const response = await open(buildStreamPath(run), { signal });
  await follow(response, run, { on, signal });
}

/** @param {string} run */
const buildStreamPath = (run) => sitePath(`/api/v1/runs/${run}/stream`);

/**
 * Reads events until the run has ended. Where the line breaks, it asks for what came after the last event.
 * @param {Response | null} response @param {string} run @param {Listener} listener
 */
async function follow(response, run, { on, signal }) {
  let last = 0;
  for (let tries = 0; ; tries += 1) {
    try {
      response ??= await open(buildStreamPath(run), { signal, last });
      if (response.status === 204) return;
      for await (const event of readEvents(response)) {
        if (event.seq) {
          last = event.seq;
          tries = 0;
        }
        on(event);
        if (event.type === "run.finished") return;
      }
    } catch (error) {
      const isFinal = signal?.aborted || error.status; // a refusal is an answer, a broken line is none
      if (isFinal || tries > MOST_TRIES) throw error;
    }
    response = null;
    if (!navigator.onLine) {
      await new Promise((resolve) => addEventListener("online", resolve, { once: true }));
      tries = 0;
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(250 * 2 ** tries, LONGEST_PAUSE_MS)));
  }
}

/** @param {string} url @param {RequestInit & {last?: number, key?: string}} options @returns {Promise<Response>} */
async function open(url, { last, key, ...options }) {
  /** @type {Record<string, string>} */
  const headers = {
    Accept: "text/event-stream, application/json;q=0.5",
    "Content-Type": "application/json",
    "X-CSRFToken": csrf(),
  };
  if (last) headers["Last-Event-ID"] = String(last);
  if (key) headers["Idempotency-Key"] = key;
  const response = await reach(url, { ...options, headers });
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  throw problem(answer, response);
}

/**
 * The events of a stream. An event is a block of lines that ends with an empty line; its “data:” lines are one JSON
 * text.
 * @param {Response} response @returns {AsyncGenerator<StreamEvent>}
 */
async function* readEvents(response) {
  const body = /** @type {ReadableStream<BufferSource>} */ (response.body);
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? ""; // not complete yet
    for (const block of blocks) {
      const lines = block.split("\n").filter((line) => line.startsWith("data: "));
      const data = lines.map((line) => line.slice("data: ".length)).join("\n");
      if (data) yield parseExactly(data); // a comment that keeps the line open has no data
    }
  }
}
