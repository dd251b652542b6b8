// A visitor's conversation with the server: its token, its messages, and the reply as it is written.
/** @typedef {Error & {status?: number}} Problem */
/** @typedef {(event: Record<string, any>) => void} Hear what an event of a reply is given to */

export class Chat {
  /** @param {string} server @param {string} key */
  constructor(server, key) {
    this.base = `${server}/embed/v1/${encodeURIComponent(key)}`;
    this.place = `muster-chat-${key}`;
    this.token = kept(this.place);
  }

  about() {
    return this.ask("");
  }

  /** The conversation so far; empty for a new visitor, and when the token is no longer valid. @returns {Promise<{messages: {role: string, text: string}[], run: string | null}>} */
  async history() {
    if (!this.token) return { messages: [], run: null };
    try {
      return await this.ask("/messages");
    } catch (problem) {
      if (problem.status !== 401) throw problem;
      this.forget();
      return { messages: [], run: null };
    }
  }

  forget() {
    this.token = null;
    keep(this.place, null);
  }

  /**
   * Sends the message and calls on(event) until the reply has ended. A broken line is taken up again. With the same id
   * the server answers once, and answers again a message whose answer failed.
   * @param {string} message @param {string} id @param {Hear} on @param {AbortSignal} signal
   */
  async send(message, id, on, signal) {
    if (!this.token) {
      this.token = (await this.ask("/sessions", { method: "POST" })).token;
      keep(this.place, this.token);
    }
    const body = JSON.stringify({ message, id });
    const post = () => this.open("/messages", { method: "POST", body, signal });
    await this.follow(await retried(post), on, signal);
  }

  /** @param {string} run @param {Hear} on @param {AbortSignal} signal */
  async resume(run, on, signal) {
    await this.follow(await this.open(`/runs/${run}/reply`, { signal }), on, signal);
  }

  /** @param {string} run */
  stop(run) {
    return this.open(`/runs/${run}/stop`, { method: "POST" });
  }

  /** @param {Response} response @param {Hear} on @param {AbortSignal} signal */
  async follow(response, on, signal) {
    /** @type {string | null} */
    let run = null;
    for (let tries = 0; ; tries += 1) {
      try {
        for await (const event of events(response)) {
          if (event.type === "run") run = event.run;
          else tries = 0;
          on(event);
          if (event.type === "end") return;
        }
      } catch (problem) {
        if (signal.aborted) throw problem;
      }
      if (!run || tries > 5) throw new Error();
      await pause(Math.min(500 * 2 ** tries, 8000));
      response = await retried(() => this.open(`/runs/${run}/reply`, { signal }));
    }
  }

  /** @param {string} path @param {RequestInit} [options] */
  async ask(path, options) {
    return (await this.open(path, options)).json();
  }

  /** @param {string} path @param {RequestInit} [options] @returns {Promise<Response>} */
  async open(path, { body, ...options } = {}) {
    const headers = /** @type {Record<string, string>} */ ({ ...(this.token && path && { Authorization: `Bearer ${this.token}` }), ...(body && { "Content-Type": "application/json" }) });
    const response = await fetch(this.base + path, { ...options, body, headers, credentials: "omit", referrerPolicy: "no-referrer" })
      .catch((problem) => { throw problem.name === "AbortError" ? problem : new Error(); }); // in words of ours
    if (response.ok) return response;
    const { error } = await response.json().catch(() => ({}));
    throw Object.assign(new Error(error?.message ?? ""), { status: response.status });
  }
}

/** Only what never arrived is sent again; a refusal is an answer. @param {() => Promise<Response>} request */
async function retried(request) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await request();
    } catch (problem) {
      if (problem.status || problem.name === "AbortError" || tries > 2) throw problem;
      await pause(500 * 2 ** tries);
    }
  }
}

/** @param {Response} response @returns {AsyncGenerator<Record<string, any>>} */
async function* events(response) {
  const reader = /** @type {ReadableStream<BufferSource>} */ (response.body).pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) if (block.startsWith("data: ")) yield JSON.parse(block.slice(6));
  }
}

/** @param {number} ms */
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export const newId = () => crypto.randomUUID?.() ?? random();

// Pages without https have no randomUUID.
function random() {
  const hex = [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** A browser may forbid storage; then the conversation lasts as long as the page. @param {string} place */
function kept(place) {
  try { return localStorage.getItem(place); } catch { return null; }
}

/** @param {string} place @param {string | null} token */
function keep(place, token) {
  try {
    if (token) localStorage.setItem(place, token);
    else localStorage.removeItem(place);
  } catch { /* see above */ }
}
