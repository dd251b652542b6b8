// The chat on a page: a button and a panel in a shadow tree, which neither styles nor scripts of the page disturb.
import { Chat, newId } from "./chat.js";
import { markdown } from "./markdown.js";
import { sheet } from "./style.js";
import { texts } from "./texts.js";

/** @type {Record<string, string>} */
const ICONS = {
  chat: "M4 5h16v11H9l-5 4z", close: "M6 6l12 12M18 6L6 18", restart: "M4 12a8 8 0 1 0 3-6.2M4 4v5h5",
};

/** @typedef {{colour: string, title: string, greeting?: string, suggestions: string[], max_characters: number}} About what the server says of the chat */
/** @typedef {(on: import("./chat.js").Hear, signal: AbortSignal) => Promise<void>} Begin */

/** @param {Record<string, string | undefined> & {server: string}} options the attributes of the script */
export async function mount(options) {
  const chat = new Chat(options.server, options.key ?? "");
  const words = texts(options, document.documentElement.lang);
  const host = document.createElement("div");
  if (options.theme) host.dataset.theme = options.theme;
  if (options.page) host.dataset.page = "";
  const root = host.attachShadow({ mode: "open" });
  let about;
  try {
    about = await chat.about();
  } catch (problem) {
    console.warn(`The chat is not available: ${problem.message || "no answer"}`);
    if (options.page) apologise(host, root, words, problem);
    return;
  }
  root.adoptedStyleSheets = [sheet(about.colour)];
  document.body.append(host);
  const widget = new Widget(host, root, chat, about, words);
  if (options.page || options.open === "true") await widget.show(!options.page);
}

/** A page of its own is not left empty; another site goes on without the chat. @param {HTMLElement} host @param {ShadowRoot} root @param {Record<string, string>} t @param {Error} problem */
function apologise(host, root, t, problem) {
  const again = make("button", { type: "button", textContent: t.retry });
  again.addEventListener("click", () => location.reload());
  root.adoptedStyleSheets = [sheet("")];
  root.append(make("main", { className: "panel" }, make("div", { className: "log" }, make("div", { className: "fault", role: "alert" }, make("p", { textContent: problem.message || t.away }), again))));
  document.body.append(host);
}

class Widget {
  /** @param {HTMLElement} host @param {ShadowRoot} root @param {Chat} chat @param {About} about @param {Record<string, string>} t its texts */
  constructor(host, root, chat, about, t) {
    this.host = host;
    this.chat = chat;
    this.about = about;
    this.t = t;
    /** @type {string | null} */
    this.run = null;
    /** @type {AbortController | null} */
    this.busy = null;
    this.isLoaded = false;
    this.opener = make("button", { type: "button", className: "open", ariaLabel: t.open, ariaExpanded: "false" }, icon("chat"));
    this.closer = make("button", { type: "button", ariaLabel: t.close }, icon("close"));
    this.restarter = make("button", { type: "button", ariaLabel: t.restart, title: t.restart }, icon("restart"));
    this.log = make("div", { className: "log", role: "log", ariaLabel: t.log, tabIndex: 0 });
    this.state = make("div", { className: "state", role: "status" });
    this.text = make("textarea", { dir: "auto", rows: 1, placeholder: t.placeholder, ariaLabel: t.placeholder, maxLength: about.max_characters });
    this.sender = make("button", { className: "send", textContent: t.send });
    this.stopper = make("button", { type: "button", className: "stop", textContent: t.stop, hidden: true });
    this.form = make("form", {}, this.text, this.sender, this.stopper);
    const isPage = "page" in host.dataset;
    this.panel = make("section", { className: "panel", role: isPage ? "main" : "dialog", ariaLabel: about.title, hidden: true },
      make("header", {}, make("h1", { textContent: about.title }), this.restarter, ...(isPage ? [] : [this.closer])), this.log, this.state, this.form);
    root.append(this.panel, ...(isPage ? [] : [this.opener]));
    this.listen();
  }

  listen() {
    this.opener.addEventListener("click", () => this.show());
    this.closer.addEventListener("click", () => this.hide());
    this.restarter.addEventListener("click", () => this.restart());
    this.stopper.addEventListener("click", () => this.stop());
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.send(this.text.value.trim()); });
    this.text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return; // Safari's Enter of an input method has this code
      event.preventDefault();
      this.send(this.text.value.trim());
    });
    this.panel.addEventListener("keydown", (event) => {
      event.stopPropagation(); // shortcuts of the page do not react to what is typed here
      if (event.key === "Escape" && !("page" in this.host.dataset)) this.hide();
    });
  }

  async show(isAsked = true) {
    this.panel.hidden = false;
    this.opener.hidden = true;
    this.host.dataset.shown = "";
    if (isAsked) this.text.focus();
    if (this.isLoaded || this.busy) return;
    this.isLoaded = true;
    await this.load();
  }

  hide() {
    this.panel.hidden = true;
    this.opener.hidden = false;
    delete this.host.dataset.shown;
    this.opener.focus();
  }

  // The earlier messages, then the reply that is being written.
  async load() {
    this.log.ariaLive = "off"; // old messages are not read out
    this.log.replaceChildren();
    if (this.about.greeting) this.say("assistant", this.about.greeting);
    /** @type {Awaited<ReturnType<Chat["history"]>>} */
    let before = { messages: [], run: null };
    try {
      before = await this.chat.history();
    } catch (problem) {
      this.isLoaded = false; // the next opening tries again
      this.fail(problem.message || this.t.away, () => this.show());
    }
    for (const { role, text } of before.messages) this.say(role, text);
    if (this.isLoaded && !before.messages.length) this.suggest();
    requestAnimationFrame(() => { this.log.ariaLive = "polite"; });
    const { run } = before;
    if (run) await this.converse((on, signal) => this.chat.resume(run, on, signal));
  }

  suggest() {
    if (!this.about.suggestions.length) return;
    const asks = this.about.suggestions.map((text) => {
      const ask = make("button", { type: "button", textContent: text });
      ask.addEventListener("click", () => this.send(text));
      return ask;
    });
    this.asks = make("div", { className: "asks" }, ...asks);
    this.log.append(this.asks);
  }

  /** @param {string} message */
  async send(message) {
    if (!message || this.busy) return;
    this.asks?.remove();
    this.log.querySelectorAll(".fault").forEach((one) => one.remove());
    this.say("user", message);
    this.text.value = "";
    this.text.focus();
    const id = newId();
    await this.converse((on, signal) => this.chat.send(message, id, on, signal), true);
  }

  /** One reply, from its first event to its end. @param {Begin} begin */
  async converse(begin, canRepeat = false) {
    const { signal } = this.busy = new AbortController();
    this.tell("thinking");
    this.switchTo(true);
    const bubbles = new Bubbles(this);
    /** @type {Record<string, any> | null} */
    let end = null;
    try {
      await begin((event) => { if (event.type === "end") end = event; else this.hear(event, bubbles); }, signal);
    } catch (problem) {
      if (!signal.aborted) end = { status: "failed", message: problem.message };
    }
    bubbles.draw();
    this.run = this.busy = null;
    this.switchTo(false);
    this.tell("", end?.status === "stopped" ? this.t.stopped : "");
    if (end?.status === "failed") this.fail(end.message || this.t.failed, canRepeat ? () => this.converse(begin, true) : null);
  }

  /** @param {Record<string, any>} event @param {Bubbles} bubbles */
  hear(event, bubbles) {
    if (event.type === "run") { this.run = event.run; bubbles.restart(); }
    else if (event.type === "begin") bubbles.begin();
    else if (event.type === "text") { this.tell(""); bubbles.write(event.text); }
    else if (event.type === "replaced") { bubbles.text = ""; bubbles.write(event.text); }
    else if (event.type === "state") this.tell(event.state);
  }

  /** @param {boolean} isBusy */
  switchTo(isBusy) {
    this.sender.hidden = isBusy;
    this.stopper.hidden = !isBusy;
    this.restarter.disabled = isBusy;
  }

  /** @param {string} state @param {string} [words] */
  tell(state, words = "") {
    this.state.textContent = state ? this.t[state] : words;
    this.state.classList.toggle("busy", Boolean(state));
  }

  /** @param {string} words @param {(() => unknown) | null} repeat */
  fail(words, repeat) {
    const fault = make("div", { className: "fault", role: "alert" }, make("p", { textContent: words }));
    if (repeat) {
      const again = make("button", { type: "button", textContent: this.t.retry });
      again.addEventListener("click", () => { fault.remove(); this.text.focus(); repeat(); });
      fault.append(again);
    }
    this.add(fault);
  }

  async stop() {
    if (this.run) await this.chat.stop(this.run).catch(() => this.busy?.abort());
    else this.busy?.abort();
    this.text.focus();
  }

  restart() {
    this.chat.forget();
    this.log.replaceChildren();
    this.tell("");
    if (this.about.greeting) this.say("assistant", this.about.greeting);
    this.suggest();
    this.text.focus();
  }

  /** @param {string} role @param {string} text */
  say(role, text) {
    const who = role === "user" ? this.t.you : this.about.title;
    const words = role === "user" ? document.createTextNode(text) : markdown(text);
    return this.add(make("div", { className: `say ${role}`, dir: role === "user" ? "auto" : "" }, make("span", { className: "sr", textContent: `${who}: ` }), words));
  }

  /** Follows the newest words unless the visitor reads further up. @template {Element} T @param {T} element @returns {T} */
  add(element) {
    const isAtEnd = this.isAtEnd;
    this.log.append(element);
    if (isAtEnd || element.classList.contains("user")) this.log.scrollTop = this.log.scrollHeight;
    return element;
  }

  get isAtEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 80;
  }
}

// The paragraphs of one reply. They are drawn once a frame, however many pieces arrive.
class Bubbles {
  /** @param {Widget} widget */
  constructor(widget) {
    this.widget = widget;
    /** @type {HTMLElement[]} */
    this.all = [];
    this.text = "";
    this.isDue = false;
  }

  restart() {
    this.all.forEach((one) => one.remove());
    this.all = [];
    this.text = "";
  }

  begin() {
    this.draw();
    this.text = "";
    const bubble = this.widget.say("assistant", "");
    bubble.ariaBusy = "true";
    this.all.push(bubble);
  }

  /** @param {string} piece */
  write(piece) {
    this.text += piece;
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => { if (this.isDue) this.draw(true); });
  }

  draw(isUnfinished = false) {
    this.isDue = false;
    const bubble = this.all.at(-1);
    if (!bubble) return;
    const isAtEnd = this.widget.isAtEnd;
    bubble.replaceChildren(/** @type {Node} */ (bubble.firstChild), markdown(this.text));
    bubble.ariaBusy = String(isUnfinished); // a screen reader waits until the paragraph is complete
    if (isAtEnd) this.widget.log.scrollTop = this.widget.log.scrollHeight;
  }
}

/** @template {keyof HTMLElementTagNameMap} T @param {T} name @param {Record<string, any>} properties @param {...(Node | string)} children @returns {HTMLElementTagNameMap[T]} */
function make(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** @param {string} name */
function icon(name) {
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  drawn.setAttribute("viewBox", "0 0 24 24");
  drawn.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  drawn.append(path);
  return drawn;
}
