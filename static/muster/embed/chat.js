// A visitor's conversation with the server: its token, its messages, and the reply as it is written.

/** @typedef {Error & {status?: number}} Problem */
/** @typedef {(event: Record<string, any>) => void} ReplyListener what each event of a reply is given to */

export class Chat {
  /** @param {string} server its address @param {string} key of the embed */
  constructor(server, key) {
    this.base = `${server}/embed/v1/${encodeURIComponent(key)}`;
    this.storageKey = `muster-chat-${key}`;
    this.token = loadToken(this.storageKey);
  }

  /** What the server says of the chat: its title, its colour, what it suggests. */
  loadSettings() {
    return this.fetchJson("");
  }

  /**
   * The conversation so far; empty for a new visitor, and when the token is no longer valid.
   * @returns {Promise<{messages: {role: string, text: string}[], run: string | null}>}
   */
  async loadHistory() {
    const empty = { messages: [], run: null };
    if (!this.token) return empty;
    try {
      return await this.fetchJson("/messages");
    } catch (problem) {
      if (problem.status !== 401) throw problem;
      this.forget();
      return empty;
    }
  }

  /** The next message begins a new conversation. */
  forget() {
    this.token = null;
    storeToken(this.storageKey, null);
  }

  /**
   * Sends the message and calls on(event) until the reply has ended. A broken line is taken up again. With the same id
   * the server answers once, and answers again a message whose answer failed.
   * @param {string} message @param {string} id @param {ReplyListener} on @param {AbortSignal} signal
   */
  async send(message, id, on, signal) {
    if (!this.token) {
      const session = await this.fetchJson("/sessions", { method: "POST" });
      this.token = session.token;
      storeToken(this.storageKey, this.token);
    }
    const body = JSON.stringify({ message, id });
    const response = await repeatUnlessRefused(() => this.request("/messages", { method: "POST", body, signal }));
    await this.follow(response, on, signal);
  }

  /**
   * Follows the reply of a run that goes on.
   * @param {string} run @param {ReplyListener} on @param {AbortSignal} signal
   */
  async resume(run, on, signal) {
    const response = await this.request(`/runs/${run}/reply`, { signal });
    await this.follow(response, on, signal);
  }

  /** @param {string} run */
  stop(run) {
    return this.request(`/runs/${run}/stop`, { method: "POST" });
  }

  /**
   * Reads events until the reply ends. Where the line breaks, it asks for the rest, more and more slowly.
   * @param {Response} response @param {ReplyListener} on @param {AbortSignal} signal
   */
  async follow(response, on, signal) {
    /** @type {string | null} */
    let run = null;
    for (let tries = 0; ; tries += 1) {
      try {
        for await (const event of readEvents(response)) {
          if (event.type === "run") run = event.run;
          else tries = 0; // the server is there and writes
          on(event);
          if (event.type === "end") return;
        }
      } catch (problem) {
        if (signal.aborted) throw problem;
      }
      if (!run || tries > 5) throw new Error();
      await pause(Math.min(500 * 2 ** tries, 8000));
      response = await repeatUnlessRefused(() => this.request(`/runs/${run}/reply`, { signal }));
    }
  }

  /** @param {string} path @param {RequestInit} [options] */
  async fetchJson(path, options) {
    const response = await this.request(path, options);
    return response.json();
  }

  /**
   * Asks the server; throws a `Problem` with the server's message if it refuses.
   * @param {string} path @param {RequestInit} [options] @returns {Promise<Response>}
   */
  async request(path, { body, ...options } = {}) {
    /** @type {Record<string, string>} */
    const headers = {};
    if (this.token && path) headers.Authorization = `Bearer ${this.token}`;
    if (body) headers["Content-Type"] = "application/json";
    // Without cookies and the address of the page: the server learns nothing of the visitor but what was typed.
    const privacy = /** @type {const} */ ({ credentials: "omit", referrerPolicy: "no-referrer" });
    const response = await fetch(this.base + path, { ...options, body, headers, ...privacy }).catch(hideReason);
    if (response.ok) return response;
    const { error } = await response.json().catch(() => ({}));
    throw Object.assign(new Error(error?.message ?? ""), { status: response.status });
  }
}

/**
 * The browser's words for a broken line are for programmers: the widget has its own.
 * @param {Error} problem @returns {never}
 */
function hideReason(problem) {
  if (problem.name === "AbortError") throw problem;
  throw new Error();
}

/** Sends again only what never arrived; a refusal is an answer. @param {() => Promise<Response>} request */
async function repeatUnlessRefused(request) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await request();
    } catch (problem) {
      const isFinal = problem.status || problem.name === "AbortError";
      if (isFinal || tries > 2) throw problem;
      await pause(500 * 2 ** tries);
    }
  }
}

/**
 * The events of a stream: blocks of “data: …” with an empty line between them.
 * @param {Response} response @returns {AsyncGenerator<Record<string, any>>}
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
      if (block.startsWith("data: ")) yield JSON.parse(block.slice("data: ".length));
    }
  }
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The id of a message, by which the server knows it again. */
export function newId() {
  return crypto.randomUUID?.() ?? buildId();
}

/** Pages without https have no randomUUID. */
function buildId() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** A browser may forbid storage; then the conversation lasts as long as the page. @param {string} storageKey */
function loadToken(storageKey) {
  try {
    return localStorage.getItem(storageKey);
  } catch {
    return null;
  }
}

/** @param {string} storageKey @param {string | null} token */
function storeToken(storageKey, token) {
  try {
    if (token) localStorage.setItem(storageKey, token);
    else localStorage.removeItem(storageKey);
  } catch {
    // The browser forbids storage, as above.
  }
}
