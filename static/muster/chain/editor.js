// The editor of a chain: one draft, shown as a picture, as a list and as the form of one step; saved with If-Match.
import { api, localise, make, tell } from "../page.js";
import * as ops from "./draft.js";
import { StepForm } from "./form.js";
import { meet } from "./clash.js";
import { Catalog, pick, targets } from "./picker.js";
import { drawOutline } from "./outline.js";
import { Picture } from "./picture.js";
import { archive, askToPublish, publish } from "./publish.js";
import { Try, statesOf } from "./try.js";
import { Fields } from "../fields.js";
import { Row } from "../row.js";
import { Tools } from "../agent/tools.js";
import { showUsers } from "../agent/use.js";
import { Versions } from "../agent/versions.js";
import { guard } from "../unsaved.js";
import { gettext, ngettext } from "../texts.js";

/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {Error & {status?: number, code?: string, details?: any[]}} Problem */

const at = (/** @type {string} */ name) => /** @type {any} */ (document.querySelector(`[data-at="${name}"]`));
const byId = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));

export class Editor {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.name = root.dataset.name ?? "";
    this.path = `chains/${encodeURIComponent(this.name)}`;
    this.isEditable = root.dataset.editable === "yes";
    this.row = new Row(this.path);
    this.fields = new Fields(root);
    this.catalog = new Catalog();
    this.history = new ops.History({ steps: [], grants: [], output: "", strategy: "graph" });
    this.selected = "";
    /** @type {Map<string, import("./picture.js").State>} */
    this.states = new Map();
    /** @type {Map<string, any>} rows of the last run's steps, each with its run */
    this.last = new Map();
    this.lastInput = /** @type {any} */ (undefined);
    this.place = `pins/${document.body.dataset.person}/${root.dataset.id}`; // another person may sign in with this browser
    this.pins = new Map(/** @type {[string, any][]} */ (remembered(this.place)));
    /** @type {{step: string, code: string, message: string, hint: string}[]} */
    this.problems = [];
    this.isReady = false;
    this.picture = new Picture(at("picture"), {
      select: (key) => this.select(key), open: (key) => { this.select(key); byId("step-key")?.focus(); },
      connect: (from, to) => this.connect(from, to), disconnect: (from, to) => { this.change(ops.disconnect(this.draft, from, to)); this.form.again(); this.say(gettext("%(to)s no longer waits for %(from)s.", { to, from })); },
      add: (after) => this.add(after), say: (words) => this.say(words),
    });
    this.form = new StepForm(at("form"), this);
    this.tools = new Tools(byId("panel-settings"), () => this.change({ ...this.draft, grants: structuredClone(this.tools.read()) }));
    this.versions = new Versions(byId("panel-versions"), this.row, this.isEditable, async () => { await this.row.load(); this.showState(); });
    this.trial = document.getElementById("panel-try")?.querySelector("[data-try]") ? new Try(byId("panel-try"), this) : null;
  }

  get draft() { return this.history.now; }

  /** @param {string} words for screen readers, and below the picture */
  say(words) { at("say").textContent = words; }

  // -- changes ----------------------------------------------------------------------------------------------------------

  /** @param {Draft} draft @param {string} [about] */
  change(draft, about = "") {
    if (!this.isEditable) return;
    this.history.push(draft, about);
    this.refresh();
  }

  /** Another draft replaces what is shown: undo, redo, what somebody else saved. */
  replaced() {
    if (!ops.stepOf(this.draft, this.selected)) this.selected = this.draft.steps[0]?.key ?? "";
    this.sync("output", this.draft.output);
    this.sync("strategy", this.draft.strategy);
    this.tools.fill(this.draft.grants);
    this.refresh();
    this.form.show(this.selected);
  }

  /** @param {string} name @param {string} value */
  sync(name, value) {
    const control = this.root.querySelector(`[data-field="${name}"]`);
    if (control && /** @type {any} */ (control).value !== value) /** @type {any} */ (control).value = value;
  }

  refresh() {
    this.drawPicture();
    this.drawOutline();
    this.showState();
    this.trial?.show();
  }

  drawPicture() {
    const problems = new Map(this.draft.steps.map((step) => [step.key, this.problemsOf(step.key).map((one) => one.message)]));
    this.picture.draw(this.draft, { selected: this.selected, states: this.states, problems, isEditable: this.isEditable });
    at("picture").hidden = at("zoom").hidden = !this.draft.steps.length;
  }

  /** @param {string} key */
  select(key) {
    byId("step")?.click();
    return this.mark(key);
  }

  /** Chosen, and the form is where reading goes on. @param {string} key */
  async open(key) {
    await this.select(key);
    at("form").focus({ preventScroll: !matchMedia("(max-width: 62rem)").matches });
  }

  /** Chosen, without leaving the tab. @param {string} key */
  mark(key) {
    this.selected = key;
    this.drawPicture();
    this.drawOutline();
    this.picture.reveal(key);
    return this.form.show(key);
  }

  /** @param {string} [after] */
  async add(after = this.selected) {
    if (!this.isEditable) return;
    const found = await pick({ title: after ? gettext("What runs after “%(after)s”?", { after }) : gettext("What does the step run?"), find: (text) => targets(this.name, text) });
    if (!found) return;
    const { draft, key } = ops.add(this.draft, found, ops.stepOf(this.draft, after) ? after : "");
    this.change(found.kind === "tool" && !this.grantOf(found.name) ? ops.grant(draft, { ...found, kind: found.toolKind }) : draft);
    this.say(gettext("Step %(key)s was added%(what)s. %(number)s steps.", { key, what: after ? ` ${gettext("after %(after)s", { after })}` : "", number: this.draft.steps.length }));
    await this.select(key);
    byId("step-key")?.focus();
  }

  /** @param {string} from @param {string} to */
  connect(from, to) {
    const why = ops.refusal(this.draft, from, to);
    if (why) { this.say(why); tell(why); return; }
    this.change(ops.connect(this.draft, from, to));
    this.say(gettext("%(to)s now waits for %(from)s.", { to, from }));
    this.form.again();
  }

  remove(key = this.selected) {
    if (!this.isEditable || !ops.stepOf(this.draft, key)) return;
    const users = ops.neededBy(this.draft, key);
    const words = users.map(({ key: user, how }) => (user ? `“${user}” ${how}` : how)).join("; ");
    if (users.length && !confirm(gettext("Delete “%(key)s”? %(words)s. Steps that waited for it then wait for what it waited for; expressions that read it have to be changed.", { key, words }))) return;
    const place = this.draft.steps.findIndex((step) => step.key === key);
    this.change(ops.remove(this.draft, key));
    this.say(gettext("Step %(key)s was deleted. Undo brings it back.", { key }));
    this.problems = this.problems.filter((one) => one.step !== key);
    this.select(this.draft.steps[Math.min(place, this.draft.steps.length - 1)]?.key ?? "");
    at("outline").querySelector("[aria-current]")?.focus();
  }

  /** @param {Draft} draft @param {string} before @param {string} after */
  renamed(draft, before, after) {
    this.history.push(draft);
    for (const map of [this.states, this.last, this.pins]) if (map.has(before)) { /** @type {Map<string, any>} */ (map).set(after, map.get(before)); map.delete(before); }
    this.problems = this.problems.map((one) => (one.step === before ? { ...one, step: after } : one));
    this.selected = this.form.key = after;
    this.sync("output", this.draft.output);
    this.refresh();
    this.say(gettext("%(before)s is now %(after)s, also where other steps name it.", { before, after }));
  }

  /** @param {number} by */
  move(by) {
    this.change(ops.move(this.draft, this.selected, by));
    this.say(gettext("%(selected)s is number %(place)s of %(number)s.", { selected: this.selected, place: this.draft.steps.findIndex((step) => step.key === this.selected) + 1, number: this.draft.steps.length }));
    at("outline").querySelector("[aria-current]")?.focus();
  }

  duplicate() {
    if (!ops.stepOf(this.draft, this.selected)) return;
    const { draft, key } = ops.duplicate(this.draft, this.selected);
    this.change(draft);
    this.select(key);
  }

  /** @param {boolean} isUndo */
  goBack(isUndo) {
    if (!(isUndo ? this.history.undo() : this.history.redo())) { this.say(isUndo ? gettext("There is nothing to undo.") : gettext("There is nothing to redo.")); return; }
    this.replaced();
    this.say(isUndo ? gettext("Undone.") : gettext("Done again."));
  }

  // -- what is known ----------------------------------------------------------------------------------------------------

  /** @param {string} tool */
  grantOf(tool) { return this.draft.grants.find((one) => one.tool === tool); }

  /** @param {string} key */
  problemsOf(key) {
    const missing = ops.ungranted(this.draft);
    const tool = key && ops.stepOf(this.draft, key)?.tool;
    const own = tool && missing.has(tool) ? [{ step: key, code: "no_grant", message: gettext("“%(tool)s” is not granted to this chain.", { tool }), hint: gettext("Grant it below.") }] : [];
    return [...own, ...this.problems.filter((one) => one.step === key && one.code !== "no_grant")];
  }

  /** @param {string} key */
  lastOf(key) { return this.last.get(key); }

  /** @returns {any} the chain's input schema as it stands in the form */
  inputSchema() {
    const text = byId("f-input_schema")?.value ?? "";
    try { return text.trim() ? JSON.parse(text) : null; } catch { return this.row.base.input_schema ?? null; }
  }

  /** @param {string} key @param {Record<string, any> | null} pin */
  pin(key, pin) {
    if (pin) this.pins.set(key, pin);
    else this.pins.delete(key);
    remember(this.place, this.pins);
    this.drawOutline();
    this.trial?.tellPins();
  }

  /** @param {Map<string, import("./picture.js").State>} states of a run, drawn at once */
  show(states) {
    this.states = states;
    this.drawPicture();
    this.drawOutline();
  }

  /** What the steps of a run did: states, inputs and outputs. @param {string} run */
  async learn(run) {
    const { results } = await api(`runs/${run}/steps/?limit=200`);
    for (const row of results) if (row.item === -1) this.last.set(row.key, { ...row, run });
    this.show(statesOf(results));
    if (this.selected) await this.form.again();
  }

  /** Samples of the newest run of this person. */
  async learnLast() {
    const { results: [run] } = await api(`${this.path}/runs?limit=1`);
    if (!run) return;
    const { results } = await api(`runs/${run.id}/steps/?limit=200`);
    for (const row of results) if (row.item === -1) this.last.set(row.key, { ...row, run: run.id });
    this.lastInput = (await api(`runs/${run.id}`)).input;
    this.trial?.fill(this.lastInput);
    if (this.selected) this.form.again();
  }

  drawOutline() {
    drawOutline(this, at("outline"));
    for (const button of this.root.querySelectorAll("[data-one]")) /** @type {HTMLButtonElement} */ (button).disabled = !this.selected;
    at("none").hidden = this.draft.steps.length > 0;
    // A chain without steps is shown as an empty list that says what to do.
    const own = this.problems.filter((one) => !one.step && one.code !== "no_steps");
    at("problems").replaceChildren(...own.map(({ message, hint }) => make("p", { className: "note error small", textContent: [message, hint].filter(Boolean).join(" ") })));
  }

  // -- saving -----------------------------------------------------------------------------------------------------------

  /** The fields that differ from what the server has; throws for what cannot be read. */
  changes() {
    const now = { ...this.fields.read(this.row.base), steps: this.draft.steps, grants: this.draft.grants };
    const base = { ...this.row.base, steps: (this.row.base.steps ?? []).map(ops.tidy) };
    const found = Object.fromEntries(Object.entries(now).filter(([key, value]) => !ops.equal(value, /** @type {any} */ (base)[key])));
    return "steps" in found ? { ...found, grants: now.grants } : found;
  }

  isChanged() {
    if (!this.isReady || !this.isEditable) return false;
    try { return Object.keys(this.changes()).length > 0; } catch { return true; }
  }

  showState() {
    if (!this.isReady) return;
    const { published_version: live, enabled } = this.row.base;
    at("state").textContent = [live ? gettext("v%(live)s is live", { live }) : gettext("nothing is published"), enabled ? "" : "archived", this.isChanged() ? gettext("unsaved changes") : ""].filter(Boolean).join(" · ");
    at("undo").disabled = !this.history.before.length;
    at("redo").disabled = !this.history.after.length;
  }

  /** @returns {Promise<boolean>} whether the server has what the page shows */
  async save() {
    this.fields.clear();
    try {
      const changed = this.changes();
      if (Object.keys(changed).length) await this.row.save(changed);
      byId("clash").hidden = true;
      this.taken();
      await this.check();
      tell(this.problems.length ? ngettext("The draft is saved. One problem prevents publishing it.", "The draft is saved. %(number)s problems prevent publishing it.", this.problems.length) : gettext("The draft is saved. Publish it to make it live."), "success");
      return true;
    } catch (error) {
      const problem = /** @type {Problem} */ (error);
      if (problem.status === 412) await meet(this, byId("clash"));
      else this.complain(problem, gettext("Not saved."));
      return false;
    }
  }

  /** What the server now has is the draft; undo goes back beyond it. */
  taken() {
    this.fields.fill(this.row.base);
    const saved = draftOf(this.row.base);
    if (!ops.equal(saved, this.draft)) { this.history.push(saved); this.tools.fill(saved.grants); }
    this.refresh();
  }

  async check() {
    this.problems = (await api(`${this.path}/graph`)).problems;
    this.drawPicture();
    this.drawOutline();
    this.form.again();
  }

  /** Each problem at its step or field, the others in one line. @param {Problem} problem @param {string} words */
  complain(problem, words) {
    const details = problem.details ?? [];
    const known = details.filter((one) => one.step && ops.stepOf(this.draft, one.step));
    if (known.length) {
      this.problems = known.map(({ step, code = "", field = "", message = "", hint = "" }) => ({ step, code, message: [field, message].filter(Boolean).join(": "), hint }));
      this.select(known[0].step);
    }
    const rest = this.fields.point(details.filter((one) => !known.includes(one)));
    tell([words, ...(details.length && !rest.length ? [known.length ? gettext("See step “%(step)s”.", { step: known[0].step }) : gettext("See the marked field.")] : [problem.message])].join(" "));
  }

  fieldChanged() {
    const [output, strategy] = ["output", "strategy"].map((name) => /** @type {any} */ (this.root.querySelector(`[data-field="${name}"]`))?.value ?? "");
    if (output !== this.draft.output || strategy !== this.draft.strategy) this.change({ ...this.draft, output, strategy }, "fields");
    else this.showState();
    this.trial?.show();
  }

  // -- keys and start ---------------------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event */
  key(event) {
    const isTyping = /** @type {Element} */ (event.target).closest("input, textarea, select, [contenteditable]");
    const control = event.ctrlKey || event.metaKey;
    const isStep = /** @type {Element} */ (event.target).closest("[data-step]");
    const key = isStep?.getAttribute("data-step") ?? this.selected;
    const act = control && !event.altKey ? { s: () => this.save(), ...(isTyping ? {} : { z: () => this.goBack(!event.shiftKey), y: () => this.goBack(false) }) }[event.key.toLowerCase()]
      : !isTyping && !control && !event.altKey && isStep ? /** @type {any} */ ({ Delete: () => this.remove(key), Backspace: () => this.remove(key), n: () => this.add(key) })[event.key]
        : event.altKey && isStep ? /** @type {any} */ ({ ArrowUp: () => { this.selected = key; this.move(-1); }, ArrowDown: () => { this.selected = key; this.move(1); } })[event.key] : null;
    if (!act || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    if (this.isEditable) act();
  }

  listen() {
    document.addEventListener("keydown", (event) => this.key(event));
    for (const type of ["input", "change"]) for (const panel of [byId("panel-settings"), byId("panel-use")]) panel.addEventListener(type, () => this.fieldChanged());
    const on = (/** @type {string} */ name, /** @type {() => any} */ act) => at(name)?.addEventListener("click", act);
    on("add", () => this.add());
    on("undo", () => this.goBack(true));
    on("redo", () => this.goBack(false));
    on("up", () => this.move(-1));
    on("down", () => this.move(1));
    on("copy", () => this.duplicate());
    on("delete", () => this.remove());
    on("connect", () => { this.picture.focus(this.selected); this.picture.begin(this.selected); });
    on("alone", () => { byId("try")?.click(); this.trial?.alone(this.selected); });
    on("in", () => this.picture.zoom(1.25));
    on("out", () => this.picture.zoom(0.8));
    on("fit", () => this.picture.fit());
    on("save", () => this.save());
    on("publish", () => askToPublish(this, byId("publish")));
    on("archive", () => archive(this));
    const dialog = byId("publish");
    dialog?.addEventListener("close", () => { if (dialog.returnValue === "publish") publish(this, byId("note").value.trim(), byId("clash")); dialog.returnValue = ""; });
    document.addEventListener("shown", (event) => this.shown(/** @type {HTMLElement} */ (event.target).id));
    guard(() => this.isChanged());
  }

  /** @param {string} tab */
  shown(tab) {
    const load = /** @type {Record<string, () => any>} */ ({ versions: () => this.versions.show(), settings: () => this.tools.look(), use: () => showUsers(at("users"), this.path), build: () => this.picture.look() })[tab];
    Promise.resolve(load?.()).catch((/** @type {Error} */ error) => tell(error.message));
  }

  async start() {
    this.listen();
    await this.row.load();
    this.history.reset(draftOf(this.row.base));
    this.fields.fill(this.row.base);
    this.isReady = true;
    this.replaced();
    for (const button of document.querySelectorAll("[data-waits]")) button.removeAttribute("disabled");
    await Promise.all([this.check(), this.learnLast()]);
    this.shown([...document.querySelectorAll("[role=tab][aria-selected=true]")][0]?.id ?? "");
    localise(this.root);
  }
}

/** @param {any} row @returns {Draft} */
const draftOf = (row) => ({ steps: row.steps.map(ops.tidy), grants: structuredClone(row.grants), output: row.output, strategy: row.strategy });

/** Pins are kept for this tab of the browser. @param {string} place @returns {[string, any][]} */
function remembered(place) { try { return JSON.parse(sessionStorage.getItem(place) ?? "[]"); } catch { return []; } }

/** @param {string} place @param {Map<string, any>} pins */
function remember(place, pins) { try { sessionStorage.setItem(place, JSON.stringify([...pins])); } catch { /* too large: they last as long as the page */ } }

const root = document.getElementById("chain-editor");
if (root) new Editor(root).start().catch((/** @type {Error} */ error) => tell(error.message));
