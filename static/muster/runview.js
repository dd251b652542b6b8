// One run in a conversation, drawn from its events: the same for a stream, for a reload in the middle of one, and for
// what is stored of an ended run.
import { ApprovalCard, ToolCard, fileCard } from "./cards.js";
import { feedbackLine } from "./feedback.js";
import { copyButton, icon } from "./icons.js";
import { renderMarkdown } from "./markdown.js";
import { money, number } from "./numbers.js";
import { api, make } from "./page.js";
import { QuestionCard } from "./questions.js";
import { routeReason } from "./routes.js";
import { sitePath } from "./site.js";
import { Sources } from "./sources.js";
import { TextSoFar } from "./textsofar.js";
import { gettext, word } from "./texts.js";

// Usually a worker takes a run at once.
const PATIENCE_MS = 5000;

/** What people call an agent, if the page has a picker that knows. @param {string} agent */
function labelOf(agent) {
  const option = /** @type {HTMLElement | null} */ (document.querySelector(`#agent-options [data-name="${CSS.escape(agent)}"]`));
  return option?.dataset.label ?? agent;
}

export class RunView {
  /** @param {HTMLElement} element @param {{run?: string | null, isReplay?: boolean, reply?: string}} [about] `reply`: its stored text */
  constructor(element, { run = null, isReplay = false, reply = "" } = {}) {
    this.element = element;
    this.run = run;
    this.isReplay = isReplay;
    this.reply = reply;
    /** What a hook wrote instead of the model. */
    this.replaced = "";
    /** @type {Map<number, {element: HTMLElement, so: TextSoFar, isDrawn: boolean}>} */
    this.turns = new Map();
    /** @type {Map<number, {inside: HTMLElement, so: TextSoFar}>} */
    this.thoughts = new Map();
    /** @type {Map<string, ToolCard>} */
    this.calls = new Map();
    /** @type {Map<string, {card: ApprovalCard, call?: ToolCard}>} */
    this.asks = new Map();
    /** @type {Map<string, QuestionCard>} */
    this.questions = new Map();
    // those that the page shows already, after a reload
    this.files = new Set([...element.querySelectorAll(".files a[download]")].map((one) => one.getAttribute("href")?.split("/").at(-2)));
    this.sources = new Sources();
    this.hasChildren = false;
    this.isOver = false;
    this.isStarted = isReplay;
    if (isReplay) return;
    this.think();
    this.explainWait();
  }

  /** @param {{type: string, data: any}} event */
  show({ type, data }) {
    const handler = /** @type {any} */ (this)[type.replace(".", "_")];
    if (!handler) return;
    if (type !== "run_waiting") this.status?.remove();
    handler.call(this, data);
    if (!this.isOver && type.startsWith("tool.finished")) this.think();
  }

  think() { this.state(gettext("Thinking…"), "thinking"); }

  /** Until a worker takes the run: why nothing happens. */
  async explainWait() {
    await new Promise((done) => setTimeout(done, PATIENCE_MS));
    if (this.isStarted || this.isOver || !this.run || !this.status?.isConnected) return;
    const answer = await fetch(sitePath("/status"), { headers: { Accept: "application/json" } }).catch(() => null);
    const site = answer?.ok && !answer.redirected ? await answer.json() : {};
    if (this.isStarted || this.isOver) return;
    const words = site.has_worker === false ? gettext("No worker is running, so nothing answers yet. Your message is stored; an administrator of the site has to start a worker.") : gettext("Waiting for a free worker…");
    this.state(words, "thinking");
    this.explainWait();
  }

  /** @param {string} words @param {string} [kind] */
  state(words, kind = "") {
    this.status?.remove();
    this.status = make("p", { className: `small soft ${kind}`, textContent: words });
    this.element.append(this.status);
  }

  /** @param {number} turn */
  bubble(turn) {
    let found = this.turns.get(turn);
    if (!found) {
      found = { element: make("div", { className: "say assistant live", role: "group", ariaLabel: gettext("The answer") }), so: new TextSoFar(), isDrawn: true };
      this.element.append(found.element);
      this.turns.set(turn, found);
    }
    return found;
  }

  /** Drawn at most once a frame. @param {number} turn */
  draw(turn) {
    const found = this.bubble(turn);
    if (!found.isDrawn) return;
    found.isDrawn = false;
    requestAnimationFrame(() => {
      found.isDrawn = true;
      found.element.replaceChildren(renderMarkdown(found.so.text));
    });
  }

  /** @param {{turn: number, offset: number, text: string}} delta */
  message_delta({ turn, offset, text: piece }) {
    this.bubble(turn).so.write(offset, piece);
    this.draw(turn);
  }

  /** Folded. @param {{turn: number, offset: number, text: string}} delta */
  reasoning_delta({ turn, offset, text: piece }) {
    let found = this.thoughts.get(turn);
    if (!found) {
      const inside = make("pre", { className: "json" });
      this.element.append(make("details", { className: "small soft" }, make("summary", { textContent: gettext("Thoughts") }), inside));
      found = { inside, so: new TextSoFar() };
      this.thoughts.set(turn, found);
    }
    found.inside.textContent = found.so.write(offset, piece);
  }

  /** @param {{turn: number, text: string, is_cut?: boolean}} finished */
  model_finished({ turn, text: whole, is_cut: isCut }) {
    if (!whole) { // what was heard of it were thoughts
      this.turns.get(turn)?.element.remove();
      this.turns.delete(turn);
    } else if (!(isCut && this.turns.has(turn))) {
      this.bubble(turn).so.set(whole);
      this.draw(turn);
    }
    this.turns.get(turn)?.element.classList.remove("live");
  }

  /** @param {{message: string}} failed */
  model_failed({ message }) {
    if (!this.isReplay) this.state(gettext("The model did not answer: %(message)s", { message }));
  }

  run_started() {
    this.isStarted = true;
    if (!this.isReplay && !this.turns.size) this.think();
  }

  /** @param {{agent: string, reason?: string}} routed */
  run_routed({ agent, reason }) {
    this.element.append(make("p", { className: "small soft", textContent: gettext("Routed to %(agent)s%(reason)s.", { agent: labelOf(agent), reason: reason ? `: ${routeReason(reason)}` : "" }) }));
  }

  /** @param {{waiting_for?: string}} waiting */
  run_waiting({ waiting_for: what }) {
    if (what && what !== "approval" && !(what === "input" && this.questions.size)) this.state(gettext("Waiting for %(what)s.", { what: what === "child" ? gettext("another agent") : word(what) }));
  }

  run_resumed() { this.think(); }

  /** @param {ConstructorParameters<typeof ToolCard>[0]} called */
  tool_called(called) {
    const card = new ToolCard(called, this.run);
    this.calls.set(called.id, card);
    this.element.append(card.element);
  }

  /** @param {Parameters<ToolCard["finish"]>[0] & {id: string}} finished */
  tool_finished(finished) {
    const card = this.calls.get(finished.id);
    card?.finish(finished);
    this.sources.add(card?.kind ?? "", finished.result);
  }

  /** @param {{id: string, name: string, reason: string}} denied */
  tool_denied({ id, name, reason }) {
    const card = this.calls.get(id);
    if (card) card.deny(reason);
    else this.element.append(make("p", { className: "note warning", textContent: gettext("%(name)s was refused: %(reason)s", { name, reason }) }));
  }

  /** @param {Parameters<typeof fileCard>[0]} about */
  artifact_created(about) {
    if (this.files.has(about.file)) return;
    this.files.add(about.file);
    this.element.append(fileCard(about));
  }

  /** @param {{id: string, call: string} & Record<string, any>} asked */
  approval_requested(asked) {
    const card = new ApprovalCard(asked);
    const call = this.calls.get(asked.call);
    call?.setState("waiting");
    this.asks.set(asked.id, { card, call });
    this.element.append(card.element);
    if (this.isReplay) return;
    if (!document.activeElement?.matches("textarea, input")) card.yes.focus({ preventScroll: true });
    card.check();
  }

  /** @param {Parameters<ApprovalCard["close"]>[0] & {id: string}} decided */
  approval_decided(decided) {
    const { card, call } = this.asks.get(decided.id) ?? {};
    card?.close(decided);
    if (call?.state === "waiting") call.setState("running");
  }

  /** @param {ConstructorParameters<typeof QuestionCard>[0] & {kind: string}} asked */
  input_requested(asked) {
    if (asked.kind !== "form" || this.questions.has(asked.id)) return; // a tool's answer comes from a program
    const card = new QuestionCard(asked);
    this.questions.set(asked.id, card);
    this.element.append(card.element);
    if (!this.isReplay && !document.activeElement?.matches("textarea, input")) card.focus();
  }

  /** @param {Parameters<QuestionCard["close"]>[0] & {id: string}} answered */
  input_answered(answered) { this.questions.get(answered.id)?.close(answered); }

  /** @param {{run: string, agent?: string, chain?: string}} child */
  child_started({ run, agent, chain }) {
    this.hasChildren = true;
    this.element.append(make("p", { className: "small soft" }, `${gettext("%(agent)s is working on it.", { agent: agent ? labelOf(agent) : chain ?? gettext("Another agent") })} `, make("a", { href: sitePath(`/runs/${run}/`), textContent: gettext("Open its run") })));
  }

  /** @param {{status: string, error?: any, reply?: any, usage?: any, is_cut?: boolean}} finished */
  run_finished({ status, error, reply, usage, is_cut: isCut }) {
    this.isOver = true;
    if (this.hasChildren) this.showFilesBelow();
    for (const { card } of this.asks.values()) if (!card.element.classList.contains("decided")) card.close({ status: "closed" });
    for (const card of this.questions.values()) if (!card.element.classList.contains("decided")) card.close({ status: "closed" });
    for (const { element } of this.turns.values()) element.classList.remove("live");
    this.showReply(this.reply || (isCut ? "" : reply?.text ?? ""));
    if (!this.sources.isEmpty) this.element.append(this.sources.element);
    if (reply?.untrusted) this.warn();
    if (status === "cancelled") this.element.append(make("p", { className: "small soft", textContent: gettext("Stopped.") }));
    else if (error) this.showError(error.message ?? word(status));
    const words = [word(status), usage ? gettext("%(input_tokens)s + %(output_tokens)s tokens", { input_tokens: number(usage.input_tokens), output_tokens: number(usage.output_tokens) }) : "", Number(usage?.cost) ? money(usage.cost) : ""];
    const facts = words.filter(Boolean).join(" · ");
    this.facts = make("div", { className: "small soft facts-line" });
    if (this.text()) this.facts.append(copyButton(gettext("Copy the answer"), () => this.text()));
    this.feedback();
    this.facts.append(
      make("a", { className: "button quiet icon-button run-link", href: sitePath(`/runs/${this.run}/`), title: facts, ariaLabel: gettext("Run page") }, icon("info")),
      make("span", { className: "facts-words", textContent: facts }));
    this.element.append(this.facts);
  }

  /** The whole answer, as Markdown. */
  text() {
    const written = [...this.turns.values()].map(({ so }) => so.text);
    return [...written, this.replaced].filter(Boolean).join("\n\n");
  }

  /** Quietly, if nothing but the person's own files and documents can be meant. */
  warn() {
    const tools = /** @type {NodeListOf<HTMLElement>} */ ((this.element.closest(".stream") ?? this.element).querySelectorAll(".call"));
    const isOwn = [...tools].every((card) => card.dataset.kind === "knowledge");
    const isWhole = !this.element.closest(".stream")?.querySelector("a[data-earlier], .say.user[data-foreign]");
    if (isOwn && isWhole) this.element.append(make("p", { className: "small soft", textContent: gettext("It read your files or documents and may repeat what they say.") }));
    else this.element.append(make("p", { className: "note warning", textContent: gettext("This answer is based on untrusted content and may repeat its claims.") }));
  }

  /** An event has its texts in English; the run itself is answered in the language of the page. @param {string} message */
  async showError(message) {
    const note = make("p", { className: "note error", textContent: message });
    this.element.append(note);
    if (document.documentElement.lang === "en") return;
    note.textContent = (await api(`runs/${this.run}/`).catch(() => null))?.error?.message ?? message;
  }

  /** @param {{rating: string, note: string} | null} [given] */
  feedback(given = null) {
    if (!this.run || !this.facts) return;
    const line = feedbackLine(this.run, given);
    const before = this.facts.querySelector(".feedback");
    if (before) before.replaceWith(line);
    else this.facts.append(line);
  }

  /** A hook may have replaced what the model wrote. @param {string} text */
  showReply(text) {
    const last = [...this.turns.entries()].at(-1);
    if (!text || (last && last[1].so.text === text)) return;
    if (last && text.startsWith(last[1].so.text.replace(/…$/, ""))) {
      last[1].so.set(text);
      this.draw(last[0]);
    } else {
      this.replaced = text;
      this.element.append(make("div", { className: "say assistant" }, renderMarkdown(text)));
    }
  }

  /** Runs below this one have events of their own. */
  async showFilesBelow() {
    const made = await api(`runs/${this.run}/artifacts/?limit=200`).catch(() => null);
    for (const artifact of made?.results ?? []) this.artifact_created(artifact);
  }
}
