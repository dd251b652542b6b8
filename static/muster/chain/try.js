// Trying the draft of a chain: starts a run, follows its events, and says what each step does.
import { ApprovalCard } from "../cards.js";
import { money } from "../numbers.js";
import { api, make, tell } from "../page.js";
import { SchemaForm } from "../schemaform.js";
import { sitePath } from "../site.js";
import { watch } from "../sse.js";
import { gettext, word } from "../texts.js";
import { upstream } from "./draft.js";

/** @typedef {import("./editor.js").Editor} Editor */
/** @typedef {import("./picture.js").State} State */
/** @typedef {{type: string, at?: string, data: any}} RunEvent */

/** What an event says of a step. @param {Map<string, State>} states @param {RunEvent} event @returns {boolean} whether anything changed */
export function applyEvent(states, { type, data }) {
  const isOfItem = data?.item > -1;
  if (isOfItem || !data?.key) return false;
  const before = states.get(data.key) ?? { status: "ready" };
  const next = nextState(before, type, data);
  if (next) states.set(data.key, next);
  return next !== null;
}

/** @param {State} before @param {string} type @param {any} data @returns {State | null} */
function nextState(before, type, data) {
  if (type === "step.started") {
    const counts = { total: data.total ?? before.total, done: data.total ? 0 : before.done, failed: 0 };
    return { ...before, ...counts, status: "running", child: data.child ?? before.child };
  }
  if (type === "step.waiting") return { ...before, status: "waiting" };
  if (type === "chain.progress") return { ...before, status: "running", total: data.total, done: data.done, failed: data.failed };
  if (type === "step.finished") return { ...before, status: data.status, ms: data.wall_ms ?? undefined, pinned: Boolean(data.pinned) };
  return null;
}

/** The rows of a run's steps as states. @param {any[]} rows @returns {Map<string, State>} */
export function statesOf(rows) {
  const states = new Map();
  for (const row of rows) {
    // The items of a loop are counted in the row of their step.
    if (row.item !== -1) continue;
    const isTimed = row.started_at && row.finished_at && !row.pinned;
    const ms = isTimed ? new Date(row.finished_at).getTime() - new Date(row.started_at).getTime() : undefined;
    states.set(row.key, { status: row.status, total: row.total, done: row.done, failed: row.failed, ms, child: row.child, pinned: row.pinned });
  }
  return states;
}

export class Try {
  /** @param {HTMLElement} root @param {Editor} editor */
  constructor(root, editor) {
    this.editor = editor;
    const find = (/** @type {string} */ name) => /** @type {any} */ (root.querySelector(`[data-try="${name}"]`));
    /** @type {HTMLButtonElement} */
    this.start = find("start");
    /** @type {HTMLButtonElement} */
    this.stop = find("stop");
    /** @type {HTMLSelectElement} */
    this.version = find("with");
    /** @type {HTMLSelectElement} */
    this.until = find("until");
    /** @type {HTMLElement} */
    this.input = find("input");
    /** @type {HTMLElement} */
    this.answer = find("answer");
    /** @type {HTMLElement} */
    this.pinned = find("pinned");
    /** @type {HTMLElement} */
    this.asks = find("asks");
    /** @type {Map<string, ApprovalCard>} */
    this.cards = new Map();
    this.form = new SchemaForm(this.input);
    this.run = "";
    this.start.addEventListener("click", () => this.go());
    this.stop.addEventListener("click", () => this.cancel());
    for (const select of [this.until, this.version]) select.addEventListener("change", () => this.tellPins());
  }

  /** The form, the steps and the pins as they are now. */
  show() {
    const schema = this.editor.inputSchema();
    if (schema?.properties) this.form.show(schema);
    else this.showJson();
    const chosen = this.until.value;
    const whole = make("option", { value: "", textContent: gettext("the whole chain") });
    const parts = this.editor.draft.steps.map(({ key }) => make("option", { value: key, textContent: gettext("up to “%(key)s”", { key }), selected: key === chosen }));
    this.until.replaceChildren(whole, ...parts);
    this.tellPins();
  }

  /** A chain without fields for its input takes any JSON. */
  showJson() {
    if (this.input.querySelector("#try-json")) return;
    this.form.text = "";
    const value = JSON.stringify(this.editor.lastInput ?? {}, null, 2);
    const label = make("label", { htmlFor: "try-json", textContent: gettext("Input (JSON)") });
    const area = make("textarea", { id: "try-json", className: "code", rows: 3, spellcheck: false, value });
    this.input.replaceChildren(label, area);
  }

  /** @param {any} input of an earlier run */
  fill(input) {
    const isObject = input !== null && typeof input === "object";
    if (!isObject || !this.editor.inputSchema()?.properties) return;
    this.show();
    this.form.fill(input);
  }

  get isDraft() { return this.version.value === "draft"; }

  /** Steps whose pinned output this try uses. */
  listUsedPins() {
    const { draft, pins } = this.editor;
    const until = this.until.value;
    const part = until ? new Set([...upstream(draft, until), until]) : null;
    const isUsed = (/** @type {string} */ key) => {
      const isStep = draft.steps.some((step) => step.key === key);
      const isInPart = !part || part.has(key);
      return isStep && isInPart && key !== until;
    };
    return [...pins].filter(([key]) => isUsed(key));
  }

  tellPins() {
    this.until.hidden = !this.isDraft;
    const keys = this.isDraft ? this.listUsedPins().map(([key]) => key) : [];
    this.pinned.textContent = keys.length ? gettext("Output given, does not run: %(keys)s.", { keys: keys.join(", ") }) : "";
  }

  /** Runs one step with what the steps before gave in the last run. @param {string} key */
  runAlone(key) {
    const { editor } = this;
    const before = upstream(editor.draft, key);
    for (const step of editor.draft.steps) {
      const row = editor.lastOf(step.key);
      const isDone = row && ["succeeded", "partial"].includes(row.status);
      const isPinned = editor.pins.has(step.key);
      if (before.has(step.key) && isDone && !isPinned) editor.pin(step.key, { run: row.run });
    }
    this.version.value = "draft";
    this.show();
    this.until.value = key;
    this.tellPins();
    this.go();
  }

  async go() {
    const { editor, isDraft } = this;
    let input;
    try {
      input = this.read();
    } catch (error) {
      this.say("error", /** @type {Error} */ (error).message);
      return;
    }
    if (isDraft && editor.isChanged() && !(await editor.save())) return;
    const draftOptions = { draft: true, until: this.until.value, pinned: Object.fromEntries(this.listUsedPins()) };
    const body = isDraft ? { input, ...draftOptions } : { input };
    this.showBusy(true);
    this.asks.replaceChildren();
    editor.show(new Map());
    try {
      const run = await api(`${editor.path}/runs`, { method: "POST", body, headers: { Prefer: "respond-async" } });
      this.run = run.id;
      this.say("", gettext("It is queued."), run.id);
      await watch(run.id, { on: (event) => this.on(event), signal: undefined });
      await this.finish();
    } catch (error) {
      this.refuse(/** @type {any} */ (error));
    }
    this.showBusy(false);
  }

  cancel() {
    const stopped = api(`runs/${this.run}/cancel`, { method: "POST", body: {} });
    stopped.catch((/** @type {Error} */ error) => tell(error.message));
  }

  read() {
    const area = /** @type {HTMLTextAreaElement | null} */ (this.input.querySelector("#try-json"));
    if (!area) return this.form.read();
    try {
      return area.value.trim() ? JSON.parse(area.value) : {};
    } catch (error) {
      throw new Error(gettext("The input is not JSON: %(problem)s", { problem: /** @type {Error} */ (error).message }));
    }
  }

  /** @param {boolean} isBusy */
  showBusy(isBusy) {
    this.start.disabled = isBusy;
    this.stop.hidden = !isBusy;
  }

  /** @param {RunEvent} event */
  on(event) {
    const { type, data } = event;
    if (applyEvent(this.editor.states, event)) this.editor.show(this.editor.states);
    if (type === "run.started") this.say("", gettext("It is running."), this.run);
    if (type === "run.waiting") {
      const what = data.waiting_for === "child" ? gettext("a step") : word(data.waiting_for);
      this.say("", gettext("It waits for %(what)s.", { what }), this.run);
    }
    if (type === "approval.requested") {
      const card = new ApprovalCard(data);
      this.cards.set(data.id, card);
      this.asks.append(card.element);
      card.yes.focus();
      card.check();
    }
    if (type === "approval.decided") this.cards.get(data.id)?.close(data);
  }

  async finish() {
    await this.editor.learn(this.run);
    const run = await api(`runs/${this.run}`);
    const cost = Number(run.usage?.cost) ? money(run.usage.cost) : "";
    const facts = [word(run.status), cost].filter(Boolean).join(" · ");
    const kinds = /** @type {Record<string, string>} */ ({ succeeded: "success", partial: "warning" });
    this.say(kinds[run.status] ?? "error", run.error ? `${facts}: ${describeError(run.error)}` : facts, run.id, run.output);
    const failedStep = run.status === "failed" ? run.error?.step : "";
    if (failedStep) this.editor.showFailure(failedStep);
  }

  /** @param {any} error */
  refuse(error) {
    this.say("error", error.message);
    const step = (error.details ?? []).find((/** @type {any} */ detail) => detail.step)?.step;
    if (step) this.editor.mark(step);
  }

  /** @param {string} kind @param {string} words @param {string} [run] @param {any} [output] */
  say(kind, words, run, output) {
    const note = make("p", { className: `note ${kind}` }, words);
    if (run) note.append(" ", make("a", { href: sitePath(`/runs/${run}/`), textContent: gettext("Open the run") }));
    this.answer.replaceChildren(note);
    if (output === undefined || output === null) return;
    const text = typeof output === "string" ? output : JSON.stringify(output, null, 2);
    const result = make("pre", { className: "json", tabIndex: 0, role: "region", ariaLabel: gettext("Result"), textContent: text });
    this.answer.append(make("p", { className: "label small", textContent: gettext("Result") }), result);
  }
}

/** @param {any} error of a run */
function describeError(error) {
  const step = error.step ? `${gettext("step “%(step)s”:", { step: error.step })} ` : "";
  return `${step}${error.message}`;
}
