// Trying the draft of a chain: starts a run, follows its events, and says what each step does.
import { ApprovalCard } from "../cards.js";
import { money } from "../numbers.js";
import { api, make, tell } from "../page.js";
import { SchemaForm } from "../schemaform.js";
import { sitePath } from "../site.js";
import { watch } from "../sse.js";
import { upstream } from "./draft.js";
import { gettext, word } from "../texts.js";

/** @typedef {import("./editor.js").Editor} Editor */
/** @typedef {import("./picture.js").State} State */

/** What an event says of a step. @param {Map<string, State>} states @param {{type: string, at?: string, data: any}} event @returns {boolean} whether anything changed */
export function follow(states, { type, data }) {
  if (data?.item > -1 || !data?.key) return false;
  const before = states.get(data.key) ?? { status: "ready" };
  const next = /** @type {Record<string, () => State>} */ ({
    "step.started": () => ({ ...before, status: "running", child: data.child ?? before.child, total: data.total ?? before.total, done: data.total ? 0 : before.done, failed: 0 }),
    "step.waiting": () => ({ ...before, status: "waiting" }),
    "chain.progress": () => ({ ...before, status: "running", total: data.total, done: data.done, failed: data.failed }),
    "step.finished": () => ({ ...before, status: data.status, ms: data.wall_ms ?? undefined, pinned: Boolean(data.pinned) }),
  })[type];
  if (next) states.set(data.key, next());
  return Boolean(next);
}

/** The rows of a run's steps as states. @param {any[]} rows @returns {Map<string, State>} */
export function statesOf(rows) {
  const took = (/** @type {any} */ row) => (row.started_at && row.finished_at && !row.pinned ? new Date(row.finished_at).getTime() - new Date(row.started_at).getTime() : undefined);
  return new Map(rows.filter((row) => row.item === -1).map((row) => [row.key, { status: row.status, total: row.total, done: row.done, failed: row.failed, ms: took(row), child: row.child, pinned: row.pinned }]));
}

export class Try {
  /** @param {HTMLElement} root @param {Editor} editor */
  constructor(root, editor) {
    this.editor = editor;
    const at = (/** @type {string} */ name) => /** @type {any} */ (root.querySelector(`[data-try="${name}"]`));
    /** @type {HTMLButtonElement} */
    this.start = at("start");
    /** @type {HTMLButtonElement} */
    this.stop = at("stop");
    /** @type {HTMLSelectElement} */
    this.version = at("with");
    /** @type {HTMLSelectElement} */
    this.until = at("until");
    /** @type {HTMLElement} */
    this.input = at("input");
    /** @type {HTMLElement} */
    this.answer = at("answer");
    /** @type {HTMLElement} */
    this.pinned = at("pinned");
    /** @type {HTMLElement} */
    this.asks = at("asks");
    /** @type {Map<string, ApprovalCard>} */
    this.cards = new Map();
    this.form = new SchemaForm(this.input);
    this.run = "";
    this.start.addEventListener("click", () => this.go());
    this.stop.addEventListener("click", () => api(`runs/${this.run}/cancel`, { method: "POST", body: {} }).catch((/** @type {Error} */ error) => tell(error.message)));
    for (const select of [this.until, this.version]) select.addEventListener("change", () => this.tellPins());
  }

  /** The form, the steps and the pins as they are now. */
  show() {
    const schema = this.editor.inputSchema();
    if (schema?.properties) this.form.show(schema);
    else if (!this.input.querySelector("#try-json")) {
      this.form.text = "";
      this.input.replaceChildren(make("label", { htmlFor: "try-json", textContent: gettext("Input (JSON)") }), make("textarea", { id: "try-json", className: "code", rows: 4, spellcheck: false, value: JSON.stringify(this.editor.lastInput ?? {}, null, 2) }));
    }
    const chosen = this.until.value;
    this.until.replaceChildren(make("option", { value: "", textContent: gettext("the whole chain") }), ...this.editor.draft.steps.map((step) => make("option", { value: step.key, textContent: gettext("up to “%(key)s”", { key: step.key }), selected: step.key === chosen })));
    this.tellPins();
  }

  /** @param {any} input of an earlier run */
  fill(input) { if (input && typeof input === "object" && this.editor.inputSchema()?.properties) { this.show(); this.form.fill(input); } }

  get isDraft() { return this.version.value === "draft"; }

  /** Steps whose pinned output this try uses. */
  used() {
    const until = this.until.value;
    const part = until ? new Set([...upstream(this.editor.draft, until), until]) : null;
    return [...this.editor.pins].filter(([key]) => this.editor.draft.steps.some((step) => step.key === key) && (!part || part.has(key)) && key !== until);
  }

  tellPins() {
    this.until.hidden = !this.isDraft;
    const keys = this.isDraft ? this.used().map(([key]) => key) : [];
    this.pinned.textContent = keys.length ? gettext("Output given, does not run: %(keys)s.", { keys: keys.join(", ") }) : "";
  }

  /** Runs one step with what the steps before gave in the last run. @param {string} key */
  alone(key) {
    for (const step of this.editor.draft.steps) {
      const row = this.editor.lastOf(step.key);
      if (upstream(this.editor.draft, key).has(step.key) && !this.editor.pins.has(step.key) && row && ["succeeded", "partial"].includes(row.status)) this.editor.pin(step.key, { run: row.run });
    }
    this.version.value = "draft";
    this.show();
    this.until.value = key;
    this.tellPins();
    this.go();
  }

  async go() {
    let input;
    try { input = this.read(); } catch (error) { this.say("error", /** @type {Error} */ (error).message); return; }
    const draft = this.isDraft;
    if (draft && this.editor.isChanged() && !(await this.editor.save())) return;
    const body = draft ? { input, draft, until: this.until.value, pinned: Object.fromEntries(this.used()) } : { input };
    this.busy(true);
    this.asks.replaceChildren();
    this.editor.show(new Map());
    try {
      const run = await api(`${this.editor.path}/runs`, { method: "POST", body, headers: { Prefer: "respond-async" } });
      this.run = run.id;
      this.say("", gettext("It is queued."), run.id);
      await watch(run.id, { on: (event) => this.on(event), signal: undefined });
      await this.ended();
    } catch (error) { this.refused(/** @type {any} */ (error)); }
    this.busy(false);
  }

  read() {
    const json = /** @type {HTMLTextAreaElement | null} */ (this.input.querySelector("#try-json"));
    if (!json) return this.form.read();
    try { return json.value.trim() ? JSON.parse(json.value) : {}; } catch (error) { throw new Error(gettext("The input is not JSON: %(problem)s", { problem: /** @type {Error} */ (error).message })); }
  }

  /** @param {boolean} is */
  busy(is) { this.start.disabled = is; this.stop.hidden = !is; }

  /** @param {{type: string, data: any}} event */
  on(event) {
    const { type, data } = event;
    if (follow(this.editor.states, event)) this.editor.show(this.editor.states);
    if (type === "run.started") this.say("", gettext("It is running."), this.run);
    if (type === "run.waiting") this.say("", gettext("It waits for %(what)s.", { what: data.waiting_for === "child" ? gettext("a step") : word(data.waiting_for) }), this.run);
    if (type === "approval.requested") { const card = new ApprovalCard(data); this.cards.set(data.id, card); this.asks.append(card.element); card.yes.focus(); card.check(); }
    if (type === "approval.decided") this.cards.get(data.id)?.close(data);
  }

  async ended() {
    await this.editor.learn(this.run);
    const run = await api(`runs/${this.run}`);
    const facts = [run.status, Number(run.usage?.cost) ? money(run.usage.cost) : ""].filter(Boolean).join(" · ");
    this.say(run.status === "succeeded" ? "success" : run.status === "partial" ? "warning" : "error", run.error ? `${facts}: ${run.error.step ? `${gettext("step “%(step)s”:", { step: run.error.step })} ` : ""}${run.error.message}` : facts, run.id, run.output);
    if (run.error?.step && run.status === "failed") this.editor.mark(run.error.step);
  }

  /** @param {any} error */
  refused(error) {
    this.say("error", error.message);
    const step = (error.details ?? []).find((/** @type {any} */ one) => one.step)?.step;
    if (step) this.editor.mark(step);
  }

  /** @param {string} kind @param {string} words @param {string} [run] @param {any} [output] */
  say(kind, words, run, output) {
    const link = run ? [" ", make("a", { href: sitePath(`/runs/${run}/`), textContent: gettext("Open the run") })] : [];
    const result = output === undefined || output === null ? [] : [make("p", { className: "label small", textContent: gettext("Result") }), make("pre", { className: "json", tabIndex: 0, role: "region", ariaLabel: gettext("Result"), textContent: typeof output === "string" ? output : JSON.stringify(output, null, 2) })];
    this.answer.replaceChildren(make("p", { className: `note ${kind}` }, words, ...link), ...result);
  }
}
