// The chat on a page: a button and a panel in a shadow tree, which neither styles nor scripts of the page disturb.
import { Chat, newId } from "./chat.js";
import { markdown } from "./markdown.js";
import { sheet } from "./style.js";
import { texts } from "./texts.js";

/** @type {Record<string, string>} */
const ICONS = {
  chat: "M4 5h16v11H9l-5 4z",
  close: "M6 6l12 12M18 6L6 18",
  restart: "M4 12a8 8 0 1 0 3-6.2M4 4v5h5",
};
// Who is this near to the end of the log, in pixels, follows the newest words.
const NEAR_END = 80;

/**
 * What the server says of the chat.
 * @typedef {object} Settings
 * @property {string} colour
 * @property {string} title
 * @property {string} [greeting]
 * @property {string[]} suggestions
 * @property {number} max_characters
 */
/** @typedef {import("./chat.js").ReplyListener} ReplyListener */
/** @typedef {(on: ReplyListener, signal: AbortSignal) => Promise<void>} ReplyRequest asks for one reply */

/**
 * Puts the chat on the page.
 * @param {Record<string, string | undefined> & {server: string}} options the attributes of the script
 */
export async function mount(options) {
  const chat = new Chat(options.server, options.key ?? "");
  const words = texts(options, document.documentElement.lang);
  const host = document.createElement("div");
  if (options.theme) host.dataset.theme = options.theme;
  if (options.page) host.dataset.page = "";
  const root = host.attachShadow({ mode: "open" });
  let settings;
  try {
    settings = await chat.loadSettings();
  } catch (problem) {
    console.warn(`The chat is not available: ${problem.message || "no answer"}`);
    // A page of its own is not left empty; another site goes on without the chat.
    if (options.page) showApology(host, root, words, problem);
    return;
  }
  root.adoptedStyleSheets = [sheet(settings.colour)];
  document.body.append(host);
  const widget = new Widget(host, root, chat, settings, words);
  if (options.page || options.open === "true") await widget.show(!options.page);
}

/**
 * Says that the chat is not available, with a button that tries again.
 * @param {HTMLElement} host @param {ShadowRoot} root @param {Record<string, string>} words @param {Error} problem
 */
function showApology(host, root, words, problem) {
  const again = buildButton(words.retry, () => location.reload());
  const reason = build("p", { textContent: problem.message || words.away });
  const fault = build("div", { className: "fault", role: "alert" }, reason, again);
  root.adoptedStyleSheets = [sheet("")];
  root.append(build("main", { className: "panel" }, build("div", { className: "log" }, fault)));
  document.body.append(host);
}

class Widget {
  /**
   * @param {HTMLElement} host @param {ShadowRoot} root @param {Chat} chat
   * @param {Settings} settings @param {Record<string, string>} words
   */
  constructor(host, root, chat, settings, words) {
    this.host = host;
    this.chat = chat;
    this.settings = settings;
    this.words = words;
    this.isPage = "page" in host.dataset; // a page of its own, which cannot be closed
    /** @type {string | null} the run that writes the reply */
    this.run = null;
    /** @type {AbortController | null} while a reply is awaited */
    this.request = null;
    this.isLoaded = false;
    const opener = { type: "button", className: "open", ariaLabel: words.open, ariaExpanded: "false" };
    this.opener = build("button", opener, buildIcon("chat"));
    this.closer = build("button", { type: "button", ariaLabel: words.close }, buildIcon("close"));
    const restarter = { type: "button", ariaLabel: words.restart, title: words.restart };
    this.restarter = build("button", restarter, buildIcon("restart"));
    this.log = build("div", { className: "log", role: "log", ariaLabel: words.log, tabIndex: 0 });
    this.state = build("div", { className: "state", role: "status" });
    this.text = build("textarea", {
      dir: "auto",
      rows: 1,
      placeholder: words.placeholder,
      ariaLabel: words.placeholder,
      maxLength: settings.max_characters,
    });
    this.sender = build("button", { className: "send", textContent: words.send });
    this.stopper = build("button", { type: "button", className: "stop", textContent: words.stop, hidden: true });
    this.form = build("form", {}, this.text, this.sender, this.stopper);
    this.panel = this.buildPanel();
    root.append(this.panel);
    if (!this.isPage) root.append(this.opener);
    this.listen();
  }

  buildPanel() {
    const { title } = this.settings;
    const head = build("header", {}, build("h1", { textContent: title }), this.restarter);
    if (!this.isPage) head.append(this.closer);
    const role = this.isPage ? "main" : "dialog";
    const properties = { className: "panel", role, ariaLabel: title, hidden: true };
    return build("section", properties, head, this.log, this.state, this.form);
  }

  listen() {
    this.opener.addEventListener("click", () => this.show());
    this.closer.addEventListener("click", () => this.hide());
    this.restarter.addEventListener("click", () => this.restart());
    this.stopper.addEventListener("click", () => this.stop());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(this.text.value.trim());
    });
    this.text.addEventListener("keydown", (event) => {
      // Safari's Enter that ends the text of an input method has this code.
      const isComposing = event.isComposing || event.keyCode === 229;
      if (event.key !== "Enter" || event.shiftKey || isComposing) return;
      event.preventDefault();
      this.send(this.text.value.trim());
    });
    this.panel.addEventListener("keydown", (event) => {
      event.stopPropagation(); // shortcuts of the page do not react to what is typed here
      if (event.key === "Escape" && !this.isPage) this.hide();
    });
  }

  /** Opens the panel. The conversation is loaded only when somebody wants to see it. */
  async show(takesFocus = true) {
    this.panel.hidden = false;
    this.opener.hidden = true;
    this.host.dataset.shown = "";
    if (takesFocus) this.text.focus();
    if (this.isLoaded || this.request) return;
    this.isLoaded = true;
    await this.load();
  }

  hide() {
    this.panel.hidden = true;
    this.opener.hidden = false;
    delete this.host.dataset.shown;
    this.opener.focus();
  }

  /** Shows the earlier messages, then the reply that is being written. */
  async load() {
    this.log.ariaLive = "off"; // old messages are not read out
    this.log.replaceChildren();
    this.greet();
    /** @type {Awaited<ReturnType<Chat["loadHistory"]>>} */
    let history = { messages: [], run: null };
    try {
      history = await this.chat.loadHistory();
    } catch (problem) {
      this.isLoaded = false; // the next opening tries again
      this.showFault(problem.message || this.words.away, () => this.show());
    }
    for (const { role, text } of history.messages) this.addMessage(role, text);
    if (this.isLoaded && !history.messages.length) this.suggest();
    requestAnimationFrame(() => {
      this.log.ariaLive = "polite";
    });
    const { run } = history;
    if (run) await this.converse((on, signal) => this.chat.resume(run, on, signal));
  }

  greet() {
    if (this.settings.greeting) this.addMessage("assistant", this.settings.greeting);
  }

  /** Offers messages for a start. */
  suggest() {
    if (!this.settings.suggestions.length) return;
    const buttons = this.settings.suggestions.map((text) => buildButton(text, () => this.send(text)));
    this.suggestions = build("div", { className: "asks" }, ...buttons);
    this.log.append(this.suggestions);
  }

  /** @param {string} message */
  async send(message) {
    if (!message || this.request) return;
    this.suggestions?.remove();
    for (const fault of this.log.querySelectorAll(".fault")) fault.remove();
    this.addMessage("user", message);
    this.text.value = "";
    this.text.focus();
    const id = newId();
    await this.converse((on, signal) => this.chat.send(message, id, on, signal), true);
  }

  /** One reply, from its first event to its end. @param {ReplyRequest} ask */
  async converse(ask, canRepeat = false) {
    this.request = new AbortController();
    const { signal } = this.request;
    this.showState("thinking");
    this.switchButtons(true);
    const reply = new Reply(this);
    /** @type {Record<string, any> | null} */
    let end = null;
    try {
      await ask((event) => {
        if (event.type === "end") end = event;
        else this.receive(event, reply);
      }, signal);
    } catch (problem) {
      if (!signal.aborted) end = { status: "failed", message: problem.message };
    }
    reply.draw();
    this.run = null;
    this.request = null;
    this.switchButtons(false);
    this.showState("", end?.status === "stopped" ? this.words.stopped : "");
    if (end?.status !== "failed") return;
    this.showFault(end.message || this.words.failed, canRepeat ? () => this.converse(ask, true) : null);
  }

  /** @param {Record<string, any>} event @param {Reply} reply */
  receive(event, reply) {
    switch (event.type) {
      case "run":
        this.run = event.run;
        reply.restart();
        break;
      case "begin":
        reply.begin();
        break;
      case "text":
        this.showState("");
        reply.write(event.text);
        break;
      case "replaced": // a hook has changed what was written
        reply.text = "";
        reply.write(event.text);
        break;
      case "state":
        this.showState(event.state);
        break;
    }
  }

  /** While a reply is written, it can be stopped and nothing can be sent. @param {boolean} isBusy */
  switchButtons(isBusy) {
    this.sender.hidden = isBusy;
    this.stopper.hidden = !isBusy;
    this.restarter.disabled = isBusy;
  }

  /**
   * @param {string} state of the reply; empty when none is awaited
   * @param {string} [otherwise] the text without a state
   */
  showState(state, otherwise = "") {
    this.state.textContent = state ? this.words[state] : otherwise;
    this.state.classList.toggle("busy", Boolean(state));
  }

  /** @param {string} text @param {(() => unknown) | null} repeat */
  showFault(text, repeat) {
    const fault = build("div", { className: "fault", role: "alert" }, build("p", { textContent: text }));
    if (repeat) {
      const again = buildButton(this.words.retry, () => {
        fault.remove();
        this.text.focus();
        repeat();
      });
      fault.append(again);
    }
    this.append(fault);
  }

  async stop() {
    // Before its first event a reply has no run: then the visitor stops waiting for it.
    if (this.run) await this.chat.stop(this.run).catch(() => this.request?.abort());
    else this.request?.abort();
    this.text.focus();
  }

  restart() {
    this.chat.forget();
    this.log.replaceChildren();
    this.showState("");
    this.greet();
    this.suggest();
    this.text.focus();
  }

  /** Shows a message of the visitor or of the assistant. @param {string} role @param {string} text */
  addMessage(role, text) {
    const isUser = role === "user";
    const who = build("span", { className: "sr", textContent: `${isUser ? this.words.you : this.settings.title}: ` });
    const content = isUser ? document.createTextNode(text) : markdown(text);
    return this.append(build("div", { className: `say ${role}`, dir: isUser ? "auto" : "" }, who, content));
  }

  /**
   * Adds to the log, and follows the newest words unless the visitor reads further up.
   * @template {Element} T @param {T} element @returns {T}
   */
  append(element) {
    const { isAtEnd } = this;
    this.log.append(element);
    if (isAtEnd || element.classList.contains("user")) this.scrollToEnd();
    return element;
  }

  get isAtEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END;
  }

  scrollToEnd() {
    this.log.scrollTop = this.log.scrollHeight;
  }
}

// The paragraphs of one reply. They are drawn once a frame, however many pieces arrive.
class Reply {
  /** @param {Widget} widget */
  constructor(widget) {
    this.widget = widget;
    /** @type {HTMLElement[]} */
    this.paragraphs = [];
    this.text = ""; // of the last paragraph
    this.isDrawingDue = false;
  }

  /** The run begins anew: what it wrote before does not count. */
  restart() {
    for (const paragraph of this.paragraphs) paragraph.remove();
    this.paragraphs = [];
    this.text = "";
  }

  begin() {
    this.draw();
    this.text = "";
    const paragraph = this.widget.addMessage("assistant", "");
    paragraph.ariaBusy = "true";
    this.paragraphs.push(paragraph);
  }

  /** @param {string} piece */
  write(piece) {
    this.text += piece;
    if (this.isDrawingDue) return;
    this.isDrawingDue = true;
    requestAnimationFrame(() => {
      if (this.isDrawingDue) this.draw(true);
    });
  }

  draw(isUnfinished = false) {
    this.isDrawingDue = false;
    const paragraph = this.paragraphs.at(-1);
    if (!paragraph) return;
    const { isAtEnd } = this.widget;
    const who = /** @type {Node} */ (paragraph.firstChild);
    paragraph.replaceChildren(who, markdown(this.text));
    paragraph.ariaBusy = String(isUnfinished); // a screen reader waits until the paragraph is complete
    if (isAtEnd) this.widget.scrollToEnd();
  }
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} name @param {Record<string, any>} properties
 * @param {...(Node | string)} children @returns {HTMLElementTagNameMap[T]}
 */
function build(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** @param {string} text @param {() => unknown} onClick */
function buildButton(text, onClick) {
  const button = build("button", { type: "button", textContent: text });
  button.addEventListener("click", onClick);
  return button;
}

/** @param {string} name one of ICONS */
function buildIcon(name) {
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  picture.setAttribute("viewBox", "0 0 24 24");
  picture.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  picture.append(path);
  return picture;
}
