// The playground: one or two columns, each a conversation of its own.
import { sitePath } from "./site.js";
import { converse, watch } from "./sse.js";
import { filesOf, sentFiles } from "./attached.js";
import { Attachments, named } from "./attachments.js";
import { parseExactly } from "./numbers.js";
import { copyButton, iconButton } from "./icons.js";
import { csrf, make, problem, reach, tell, api } from "./page.js";
import { renderMarkdown } from "./markdown.js";
import { pickPrompts } from "./prompts.js";
import { RunView } from "./runview.js";
import { offerSharing } from "./share.js";
import { showSnippets } from "./snippets.js";
import { gettext } from "./texts.js";

const composer = /** @type {HTMLFormElement} */ (document.getElementById("composer"));
const text = /** @type {HTMLTextAreaElement} */ (document.getElementById("text"));
const stop = /** @type {HTMLButtonElement} */ (document.querySelector("[data-stop]"));
const talk = /** @type {HTMLElement} */ (document.getElementById("talk"));

// -- scrolling: the end stays in view until the reader scrolls up -------------------------------------------------------

const NEAR = 120;
let follows = true;

// The cards of an empty chat are read from their beginning.
function toEnd() { if (talk.querySelector(".stream > *")) talk.scrollTop = talk.scrollHeight; }

function keepEndInView() {
  let last = talk.scrollTop;
  talk.addEventListener("scroll", () => {
    if (talk.scrollHeight - talk.scrollTop - talk.clientHeight < NEAR) follows = true;
    else if (talk.scrollTop < last) follows = false; // not for being behind: the text may have grown since
    last = talk.scrollTop;
  });
  const observer = new ResizeObserver(() => { if (follows) toEnd(); });
  for (const one of [talk, ...talk.querySelectorAll(".stream")]) observer.observe(one);
}

// -- a conversation -----------------------------------------------------------------------------------------------------

class Column {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    this.stream = /** @type {HTMLElement} */ (element.querySelector(".stream"));
    this.agent = /** @type {HTMLInputElement} */ (element.querySelector("[data-agent]"));
    if (!this.agent) { // one column: both stand in the head of the page
      this.agent = /** @type {HTMLInputElement} */ (document.querySelector(".head [data-agent]"));
      this.version = document.querySelector(".head [data-version]");
    }
    this.version = /** @type {HTMLInputElement | null} */ (element.querySelector("[data-version]"));
    this.session = element.dataset.session || null;
    /** @type {Set<string>} */
    this.running = new Set();
    this.edited = /** @type {HTMLElement | null} */ (null);
    this.stream.addEventListener("click", (event) => {
      const link = /** @type {Element} */ (event.target).closest("a[data-earlier]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.showEarlier().catch((error) => tell(error.message));
    });
    for (const turn of /** @type {NodeListOf<HTMLElement>} */ (this.stream.querySelectorAll(".turn"))) this.revive(turn);
  }

  /** What the server drew becomes what the events say: tool calls and approvals too. @param {HTMLElement} turn */
  revive(turn) {
    const { run, live } = turn.dataset;
    turn.dataset.drawn = "";
    this.addVerbs(turn);
    const events = STORED[run ?? ""] ?? [];
    const said = [...turn.querySelectorAll(".say.assistant")];
    if (live) this.follow(turn, /** @type {string} */ (run));
    else if (events.length) {
      const view = new RunView(this.answersOf(turn), { run, isReplay: true, reply: said.map((one) => one.textContent).at(-1) ?? "" });
      for (const event of events) view.show(event);
      this.addAgain(turn);
    } else {
      const texts = said.map((one) => one.textContent ?? "");
      for (const [place, one] of said.entries()) one.replaceChildren(renderMarkdown(texts[place]));
      if (texts.length) turn.append(make("div", { className: "small soft facts-line" }, copyButton(gettext("Copy the answer"), () => texts.join("\n\n"))));
    }
  }

  /** Those before the first one on the page, above it; what is being read stays where it is. */
  async showEarlier() {
    const link = /** @type {HTMLAnchorElement | null} */ (this.stream.querySelector("a[data-earlier]"));
    if (!link) return;
    link.ariaBusy = "true";
    const drawn = await readPage(link.search).finally(() => link.removeAttribute("aria-busy"));
    const height = talk.scrollHeight;
    follows = false;
    /** @type {HTMLElement} */ (link.parentElement).replaceWith(...drawn.querySelectorAll(".column:first-child .stream > *"));
    for (const turn of /** @type {NodeListOf<HTMLElement>} */ (this.stream.querySelectorAll(".turn:not([data-drawn])"))) this.revive(turn);
    talk.scrollTop += talk.scrollHeight - height;
  }

  /** What came to this conversation elsewhere: in another tab, on another machine, while this page slept. */
  async refresh() {
    const session = this.session;
    if (!session || this.running.size || busy) return;
    const drawn = await readPage(`?session=${session}`).catch(() => null); // what the person does next says why
    if (!drawn || this.session !== session || this.running.size || busy) return;
    for (const turn of /** @type {NodeListOf<HTMLElement>} */ (drawn.querySelectorAll(".column:first-child .turn"))) {
      if (this.isDrawn(turn)) continue;
      this.stream.append(turn);
      this.revive(turn);
    }
  }

  /** @param {HTMLElement} turn */
  isDrawn({ dataset: { run, seq } }) {
    const turns = /** @type {NodeListOf<HTMLElement>} */ (this.stream.querySelectorAll(".turn"));
    const last = Math.max(0, ...[...turns].map((one) => Number(one.dataset.seq ?? 0)));
    return Number(seq) <= last || [...turns].some((one) => Boolean(run) && one.dataset.run === run);
  }

  /** @param {HTMLElement} turn */
  answersOf(turn) {
    const answers = /** @type {HTMLElement} */ (turn.querySelector(".answers"));
    for (const old of [...answers.children]) if (!old.matches(".files")) old.remove();
    return answers;
  }

  /** Go on with a run of which the page knows nothing but its id. @param {HTMLElement} turn @param {string} run */
  async follow(turn, run) {
    const view = new RunView(this.answersOf(turn), { run });
    await this.during(run, () => watch(run, { on: (event) => view.show(event) }), turn);
  }

  /** @param {string} message @param {import("./attachments.js").Attached[]} [files] */
  async send(message, files = []) {
    const edited = this.edited;
    this.edited = null;
    if (edited) await this.branch(edited);
    const user = make("div", { className: "say user", dir: "auto", role: "group", ariaLabel: gettext("You") }, message, ...(files.length ? [sentFiles(files)] : []));
    user.dataset.text = message;
    const answers = make("div", { className: "answers" });
    const turn = make("article", { className: "turn" }, user, answers);
    turn.dataset.drawn = "";
    this.stream.append(turn);
    const view = new RunView(answers);
    const name = this.agent.value.trim();
    const body = /** @type {Record<string, any>} */ ({ message: files.length ? named(message, files) : message });
    if (this.session) body.session = this.session;
    const version = this.version?.value.trim();
    if (name && version) body.version = Number(version);
    const path = name ? `agents/${encodeURIComponent(name)}/messages` : "messages";
    await this.during("", () => converse(path, body, {
      opened: ({ run, session }) => {
        view.run = turn.dataset.run = run;
        this.session = session;
        this.running.add(run);
        this.remember();
        elsewhere?.postMessage(session);
      },
      on: (event) => view.show(event),
    }), turn);
    if (!view.run && giveBack(message, files)) user.remove();
  }

  /** @param {string} run @param {() => Promise<void>} work @param {HTMLElement} turn */
  async during(run, work, turn) {
    if (run) this.running.add(run);
    showBusy();
    try { await work(); } catch (error) {
      turn.querySelector(".thinking")?.remove();
      turn.append(make("p", { className: "note error", textContent: /** @type {Error} */ (error).message }));
    }
    this.running.delete(turn.dataset.run ?? run);
    this.addVerbs(turn);
    this.addAgain(turn);
    showBusy();
  }

  remember() {
    if (document.querySelectorAll(".column").length > 1) return;
    const url = new URL(location.href);
    url.searchParams.set("session", /** @type {string} */ (this.session));
    history.replaceState(null, "", url);
    const title = /** @type {HTMLElement | null} */ (this.stream.querySelector(".say.user"))?.dataset.text ?? "";
    document.dispatchEvent(new CustomEvent("talked", { detail: { session: this.session, title } }));
  }

  /** @param {HTMLElement} turn */
  addVerbs(turn) {
    const user = /** @type {HTMLElement | null} */ (turn.querySelector(".say.user"));
    const verbs = turn.querySelector(".say-verbs") ?? make("div", { className: "say-verbs row" });
    if (!user || verbs.querySelector("button") || !(turn.dataset.seq || turn.dataset.run)) return;
    const message = user.dataset.text ?? "";
    verbs.append(
      copyButton(gettext("Copy the message"), () => message),
      iconButton("again", gettext("Retry from here"), () => this.retry(turn, message)),
      iconButton("edit", gettext("Edit"), () => this.edit(turn, message)));
    user.after(verbs);
  }

  /** Below an answer: ask again, in a branch. @param {HTMLElement} turn */
  addAgain(turn) {
    const user = /** @type {HTMLElement | null} */ (turn.querySelector(".say.user"));
    const facts = turn.querySelector(".facts-line");
    if (!user || !facts || facts.querySelector("[data-again]")) return;
    const message = user.dataset.text ?? "";
    const again = iconButton("again", gettext("Regenerate"), () => this.retry(turn, message));
    again.dataset.again = "";
    facts.insertBefore(again, facts.querySelector(".run-link"));
  }

  /** A new session with the messages before this one; the old one stays, and can be switched to. @param {HTMLElement} turn */
  async branch(turn) {
    const { run, seq } = turn.dataset;
    const body = JSON.stringify({ session: this.session, ...(seq ? { seq: Number(seq) } : { run }) });
    const response = await reach(sitePath("/playground/fork"), { method: "POST", headers: { "Content-Type": "application/json", "X-CSRFToken": csrf() }, body });
    const answer = await response.json().catch(() => null);
    if (!response.ok || !answer) throw problem(answer, response);
    const before = this.session;
    this.session = answer.session;
    while (turn.nextSibling) turn.nextSibling.remove();
    turn.replaceWith(make("p", { className: "small soft" }, `${gettext("A new branch starts here.")} `, make("a", { href: `?session=${before}`, textContent: gettext("Go back to the earlier one") })));
  }

  /** @param {HTMLElement} turn @param {string} message */
  async retry(turn, message) {
    try { this.edited = turn; await work([this], message, filesOf(/** @type {Element} */ (turn.querySelector(".say.user")))); } catch (error) { tell(/** @type {Error} */ (error).message); }
  }

  /** @param {HTMLElement} turn @param {string} message */
  edit(turn, message) {
    this.edited = turn;
    text.value = message;
    attachments?.take();
    for (const file of filesOf(/** @type {Element} */ (turn.querySelector(".say.user")))) attachments?.put(file);
    document.getElementById("editing")?.removeAttribute("hidden");
    text.focus();
  }

  async cancel() {
    for (const run of this.running) await api(`runs/${run}/cancel`, { method: "POST", body: {} }).catch((error) => tell(error.message));
  }
}

/** The events of the ended runs on this page, by run. @type {Record<string, any[]>} */
const STORED = {};
takeStored(document);

/** @param {Document} drawn */
function takeStored(drawn) {
  Object.assign(STORED, parseExactly(drawn.getElementById("stored-events")?.textContent ?? "{}"));
}

/** This page as the server draws it for other messages. @param {string} query @returns {Promise<Document>} */
async function readPage(query) {
  const response = await reach(sitePath(`/playground/${query}`), { headers: { Accept: "text/html" } });
  const drawn = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!response.ok || !drawn.getElementById("stored-events")) throw problem(null, response);
  takeStored(drawn);
  return drawn;
}

// -- the same conversation elsewhere ------------------------------------------------------------------------------------

const elsewhere = "BroadcastChannel" in window ? new BroadcastChannel("muster-conversations") : null;

function followElsewhere() {
  const refresh = () => { for (const column of columns) column.refresh(); };
  elsewhere?.addEventListener("message", ({ data }) => { for (const column of columns) if (column.session === data) column.refresh(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  addEventListener("online", refresh);
  addEventListener("pageshow", (event) => { if (event.persisted) refresh(); }); // from the cache of the back button
}

// -- the composer -------------------------------------------------------------------------------------------------------

/** @type {Column[]} */
let columns = [];
/** @type {Attachments | undefined} */
let attachments;
let busy = 0;

function showBusy() {
  const isRunning = busy > 0 || columns.some((column) => column.running.size);
  stop.hidden = !isRunning;
  /** @type {HTMLButtonElement} */ (composer.querySelector("[data-send]")).disabled = isRunning;
}

/** @param {Column[]} which @param {string} message @param {import("./attachments.js").Attached[]} [files] */
async function work(which, message, files = []) {
  busy += 1;
  follows = true;
  showBusy();
  await Promise.all(which.map((column) => column.send(message, files).catch((error) => tell(error.message))));
  busy -= 1;
  showBusy();
  if (!document.activeElement || document.activeElement === document.body) text.focus({ preventScroll: true });
}

/** A message that the server did not take, back into the composer; false if something else is written there by now. @param {string} message @param {import("./attachments.js").Attached[]} files */
function giveBack(message, files) {
  if (text.value && text.value !== message) return false;
  if (!text.value) for (const file of files) attachments?.put(file);
  text.value = message;
  return true;
}

/** The end of the conversation, or the message that the address names, however long ago it was. */
async function showStart() {
  const find = () => document.getElementById(location.hash.slice(1));
  if (!location.hash) return void toEnd();
  while (!find() && columns[0].stream.querySelector("a[data-earlier]")) await columns[0].showEarlier();
  if (!find()) return void toEnd();
  follows = false;
  find()?.scrollIntoView({ block: "center" });
}

function stopEditing() {
  for (const column of columns) column.edited = null;
  document.getElementById("editing")?.setAttribute("hidden", "");
}

if (composer) {
  columns = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".column")]).map((element) => new Column(element));
  showBusy(); // before this script came, sending would have lost the text
  keepEndInView();
  const files = attachments = new Attachments(composer, text);
  const picker = pickPrompts(composer, text);
  offerSharing(() => columns[0].session);
  showStart().catch((error) => tell(error.message));
  followElsewhere();
  composer.addEventListener("submit", async (event) => {
    event.preventDefault();
    const message = text.value.trim();
    if (files.isBusy) return void tell(gettext("The files are still being uploaded."));
    if ((!message && !files.files.length) || /** @type {HTMLButtonElement} */ (composer.querySelector("[data-send]")).disabled) return;
    text.value = "";
    document.getElementById("editing")?.setAttribute("hidden", "");
    await work(columns, message, files.take());
  });
  text.addEventListener("keydown", (event) => {
    if (picker.isOpen()) return;
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); composer.requestSubmit(); }
    if (event.key === "Escape") stopEditing();
  });
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-say]"))) button.addEventListener("click", () => { text.value = button.dataset.say ?? ""; composer.requestSubmit(); });
  stop.addEventListener("click", () => { for (const column of columns) column.cancel(); });
  document.querySelector("[data-not-editing]")?.addEventListener("click", stopEditing);
  document.querySelector("[data-snippets]")?.addEventListener("click", () => showSnippets(columns[0], text.value.trim()));
  const [visit] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
  // somebody was quicker than this script; a text that the browser restored was not sent on purpose
  if (visit?.type === "navigate" && text.value.endsWith("\n")) composer.requestSubmit();
}
