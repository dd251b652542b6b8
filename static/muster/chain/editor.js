// The editor of a chain: one draft, shown as a list, as a picture and in the inspector; saved with If-Match.
import { api, localise, make, tell } from "../page.js";
import { Tools } from "../agent/tools.js";
import { showUsers } from "../agent/use.js";
import { Versions } from "../agent/versions.js";
import { Fields } from "../fields.js";
import { Row } from "../row.js";
import { SchemaBuilder } from "../schemabuilder.js";
import { gettext, ngettext } from "../texts.js";
import { guard } from "../unsaved.js";
import { Catalog, findTargets } from "./catalog.js";
import { resolveClash } from "./clash.js";
import * as ops from "./draft.js";
import { Inspector } from "./inspector.js";
import { drawOutline } from "./outline.js";
import { pick } from "./picker.js";
import { Picture } from "./picture.js";
import { archive, askToPublish, publish } from "./publish.js";
import { Try, statesOf } from "./try.js";

/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {import("./picture.js").State} State */
/** @typedef {Error & {status?: number, code?: string, details?: any[]}} Problem */
/** @typedef {{step: string, code: string, message: string, hint: string}} DraftProblem */

const { START } = ops;
const NARROW = "(max-width: 62rem)";

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
    this.selected = START;
    /** @type {Map<string, State>} */
    this.states = new Map();
    /** @type {Map<string, any>} rows of the last run's steps, each with its run */
    this.last = new Map();
    /** @type {any[]} rows of the items of its loops */
    this.lastItems = [];
    this.lastInput = /** @type {any} */ (undefined);
    // With the person: another one may sign in with this browser.
    this.pinPlace = `pins/${document.body.dataset.person}/${root.dataset.id}`;
    this.pins = new Map(/** @type {[string, any][]} */ (loadPins(this.pinPlace)));
    /** @type {DraftProblem[]} */
    this.problems = [];
    this.isReady = false;
    this.picture = new Picture(at("picture"), {
      select: (key) => this.select(key),
      open: (key) => this.open(key),
      connect: (from, to) => this.connect(from, to),
      disconnect: (from, to) => this.disconnect(from, to),
      add: (after) => this.add(after),
      say: (words) => this.say(words),
    });
    this.inspector = new Inspector(at("step"), this);
    this.tools = new Tools(byId("panel-settings"), () => this.change({ ...this.draft, grants: structuredClone(this.tools.read()) }));
    this.versions = new Versions(byId("panel-versions"), this.row, this.fields.nameOf, this.isEditable, () => this.reloadState());
    this.trial = at("trial") ? new Try(at("trial"), this) : null;
    this.inputFields = new SchemaBuilder(at("input-fields"), byId("f-input_schema"), {
      label: gettext("Input fields"),
      empty: gettext("No field yet: the chain takes any input. Name what it needs, so that steps can read it."),
      isEditable: this.isEditable,
    });
    const output = /** @type {HTMLElement} */ (root.querySelector("[data-schema-for=f-output_schema]"));
    this.outputFields = new SchemaBuilder(output, byId("f-output_schema"), { label: gettext("Output fields"), empty: gettext("No field."), isEditable: this.isEditable });
  }

  get draft() { return this.history.now; }

  /** @param {string} words for screen readers, and below the picture */
  say(words) { at("say").textContent = words; }

  // -- changes ----------------------------------------------------------------------------------------------------------

  /** @param {Draft} draft @param {string} [field] in which the person types */
  change(draft, field = "") {
    if (!this.isEditable) return;
    this.history.push(draft, field);
    this.refresh();
  }

  /** Another draft replaces what is shown: undo, redo, what somebody else saved. */
  replaced() {
    if (!ops.stepOf(this.draft, this.selected)) this.selected = START;
    this.writeField("output", this.draft.output);
    this.writeField("strategy", this.draft.strategy);
    this.inputFields.read();
    this.outputFields.read();
    this.tools.fill(this.draft.grants);
    this.refresh();
    this.showInspector();
  }

  /** @param {string} name @param {string} value */
  writeField(name, value) {
    const control = /** @type {any} */ (this.root.querySelector(`[data-field="${name}"]`));
    if (control && control.value !== value) control.value = value;
  }

  refresh() {
    this.drawPicture();
    this.drawOutline();
    this.showState();
    this.trial?.show();
  }

  drawPicture() {
    const problems = new Map();
    for (const { key } of this.draft.steps) problems.set(key, this.problemsOf(key).map((problem) => problem.message));
    this.picture.draw(this.draft, { selected: this.selected, states: this.states, problems, isEditable: this.isEditable, input: this.inputSchema() });
  }

  drawOutline() {
    drawOutline(this, at("outline"));
    const isStep = this.selected !== START;
    for (const button of this.root.querySelectorAll("[data-one]")) /** @type {HTMLButtonElement} */ (button).disabled = !isStep;
    at("none").hidden = this.draft.steps.length > 0;
    // A chain without steps is shown as an empty list that says what to do.
    const ofChain = this.problems.filter((problem) => !problem.step && problem.code !== "no_steps");
    const notes = ofChain.map(({ message, hint }) => {
      const text = [message, hint].filter(Boolean).join(" ");
      return make("p", { className: "note error small", textContent: text });
    });
    at("problems").replaceChildren(...notes);
  }

  // -- what is chosen ---------------------------------------------------------------------------------------------------

  /** @param {string} key */
  select(key) {
    const isShown = byId("build").getAttribute("aria-selected") === "true";
    if (!isShown) byId("build").click();
    return this.mark(key);
  }

  /** Chosen, and the inspector is where reading goes on. @param {string} key */
  async open(key) {
    await this.select(key);
    at("inspector").focus({ preventScroll: !matchMedia(NARROW).matches });
  }

  /** Chosen, without leaving the tab. @param {string} key */
  mark(key) {
    this.selected = key;
    this.drawPicture();
    this.drawOutline();
    this.picture.reveal(key);
    return this.showInspector();
  }

  showInspector() {
    const isStep = Boolean(ops.stepOf(this.draft, this.selected));
    at("start").hidden = isStep;
    at("step").hidden = !isStep;
    return isStep ? this.inspector.show(this.selected) : Promise.resolve();
  }

  /** The step that stopped a run, with what it was given and what went wrong. @param {string} key */
  async showFailure(key) {
    if (!ops.stepOf(this.draft, key)) return;
    await this.mark(key);
    byId("tab-last").click();
  }

  showTry() {
    this.select(START);
    byId("tab-try").click();
    /** @type {HTMLElement | null} */ (at("trial")?.querySelector("input, textarea, select, button"))?.focus();
  }

  // -- steps ------------------------------------------------------------------------------------------------------------

  /** @param {string} [after] */
  async add(after = this.selected) {
    if (!this.isEditable) return;
    const isAfterStep = Boolean(ops.stepOf(this.draft, after));
    const title = isAfterStep ? gettext("What runs after “%(after)s”?", { after }) : gettext("What does the step run?");
    const target = await pick({ title, find: (text) => findTargets(this.name, text) });
    if (!target) return;
    const { draft, key } = ops.add(this.draft, target, isAfterStep ? after : "");
    const needsGrant = target.kind === "tool" && !this.grantOf(target.name);
    this.change(needsGrant ? ops.grant(draft, { ...target, kind: target.toolKind }) : draft);
    const place = isAfterStep ? ` ${gettext("after %(after)s", { after })}` : "";
    this.say(gettext("Step %(key)s was added%(what)s. %(number)s steps.", { key, what: place, number: this.draft.steps.length }));
    byId("tab-input").click();
    await this.select(key);
    byId("step-key")?.focus();
  }

  /** @param {string} from @param {string} to */
  connect(from, to) {
    const why = from === START || to === START ? gettext("Steps that wait for nothing begin at the start.") : ops.refusal(this.draft, from, to);
    if (why) {
      this.say(why);
      tell(why);
      return;
    }
    this.change(ops.connect(this.draft, from, to));
    this.say(gettext("%(to)s now waits for %(from)s.", { to, from }));
    this.showInspector();
  }

  /** @param {string} from @param {string} to */
  disconnect(from, to) {
    this.change(ops.disconnect(this.draft, from, to));
    this.showInspector();
    this.say(gettext("%(to)s no longer waits for %(from)s.", { to, from }));
  }

  remove(key = this.selected) {
    if (!this.isEditable || !ops.stepOf(this.draft, key)) return;
    const users = ops.neededBy(this.draft, key);
    const words = users.map(({ key: user, how }) => (user ? `“${user}” ${how}` : how)).join("; ");
    const question = gettext("Delete “%(key)s”? %(words)s. Steps that waited for it then wait for what it waited for; expressions that read it have to be changed.", { key, words });
    if (users.length && !confirm(question)) return;
    const place = this.draft.steps.findIndex((step) => step.key === key);
    this.change(ops.remove(this.draft, key));
    this.say(gettext("Step %(key)s was deleted. Undo brings it back.", { key }));
    this.problems = this.problems.filter((problem) => problem.step !== key);
    const next = this.draft.steps[Math.min(place, this.draft.steps.length - 1)];
    this.select(next?.key ?? START);
    at("outline").querySelector("[aria-current]")?.focus();
  }

  /** @param {Draft} draft @param {string} before @param {string} after */
  renamed(draft, before, after) {
    this.history.push(draft);
    for (const map of /** @type {Map<string, any>[]} */ ([this.states, this.last, this.pins])) {
      if (!map.has(before)) continue;
      map.set(after, map.get(before));
      map.delete(before);
    }
    this.lastItems = this.lastItems.map((row) => (row.key === before ? { ...row, key: after } : row));
    this.problems = this.problems.map((problem) => (problem.step === before ? { ...problem, step: after } : problem));
    this.selected = after;
    this.inspector.key = after;
    this.writeField("output", this.draft.output);
    this.refresh();
    this.say(gettext("%(before)s is now %(after)s, also where other steps name it.", { before, after }));
  }

  /** @param {number} by */
  move(by) {
    this.change(ops.move(this.draft, this.selected, by));
    const place = this.draft.steps.findIndex((step) => step.key === this.selected) + 1;
    this.say(gettext("%(selected)s is number %(place)s of %(number)s.", { selected: this.selected, place, number: this.draft.steps.length }));
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
    const isDone = isUndo ? this.history.undo() : this.history.redo();
    if (!isDone) {
      this.say(isUndo ? gettext("There is nothing to undo.") : gettext("There is nothing to redo."));
      return;
    }
    this.replaced();
    this.say(isUndo ? gettext("Undone.") : gettext("Done again."));
  }

  // -- what is known ----------------------------------------------------------------------------------------------------

  /** @param {string} tool */
  grantOf(tool) { return this.draft.grants.find((grant) => grant.tool === tool); }

  /** @param {string} key @returns {DraftProblem[]} */
  problemsOf(key) {
    const tool = ops.stepOf(this.draft, key)?.tool;
    const isMissing = tool && ops.ungranted(this.draft).has(tool);
    // The draft on this page may already have the grant that the saved one lacked.
    const others = this.problems.filter((problem) => problem.step === key && problem.code !== "no_grant");
    if (!isMissing) return others;
    const message = gettext("“%(tool)s” is not granted to this chain.", { tool });
    return [{ step: key, code: "no_grant", message, hint: gettext("Grant it below.") }, ...others];
  }

  /** @param {string} key */
  lastOf(key) { return this.last.get(key); }

  /** @param {string} key @returns {any[]} rows of the items of its loop in the last run */
  itemsOf(key) { return this.lastItems.filter((row) => row.key === key); }

  /** @returns {any} the chain's input schema as it stands in the form */
  inputSchema() {
    const text = byId("f-input_schema")?.value ?? "";
    try {
      return text.trim() ? JSON.parse(text) : null;
    } catch {
      return this.row.base.input_schema ?? null;
    }
  }

  /** @param {string} key @param {Record<string, any> | null} pin */
  pin(key, pin) {
    if (pin) this.pins.set(key, pin);
    else this.pins.delete(key);
    savePins(this.pinPlace, this.pins);
    this.drawOutline();
    this.trial?.tellPins();
  }

  /** @param {Map<string, State>} states of a run, drawn at once */
  show(states) {
    this.states = states;
    this.drawPicture();
    this.drawOutline();
  }

  /** @param {any[]} rows of the steps of a run @param {string} run */
  keep(rows, run) {
    this.lastItems = rows.filter((row) => row.item !== -1);
    for (const row of rows) {
      if (row.item === -1) this.last.set(row.key, { ...row, run });
    }
  }

  /** What the steps of a run did: states, inputs and outputs. @param {string} run */
  async learn(run) {
    const { results } = await api(`runs/${run}/steps/?limit=200`);
    this.keep(results, run);
    this.show(statesOf(results));
    await this.showInspector();
  }

  /** Samples of the newest run of this person. */
  async learnLast() {
    const { results: [run] } = await api(`${this.path}/runs?limit=1`);
    if (!run) return;
    const { results } = await api(`runs/${run.id}/steps/?limit=200`);
    this.keep(results, run.id);
    this.lastInput = (await api(`runs/${run.id}`)).input;
    this.trial?.fill(this.lastInput);
    this.showInspector();
  }

  // -- saving -----------------------------------------------------------------------------------------------------------

  /** The fields that differ from what the server has; throws for what cannot be read. */
  changes() {
    const now = { ...this.fields.read(this.row.base), steps: this.draft.steps, grants: this.draft.grants };
    const base = /** @type {any} */ ({ ...this.row.base, steps: (this.row.base.steps ?? []).map(ops.tidy) });
    const changed = Object.fromEntries(Object.entries(now).filter(([key, value]) => !ops.equal(value, base[key])));
    // Steps are checked with the grants that they were written with.
    return "steps" in changed ? { ...changed, grants: now.grants } : changed;
  }

  isChanged() {
    if (!this.isReady || !this.isEditable) return false;
    try {
      return Object.keys(this.changes()).length > 0;
    } catch {
      return true;
    }
  }

  showState() {
    if (!this.isReady) return;
    const { published_version: live, enabled } = this.row.base;
    const words = [live ? gettext("v%(live)s is live", { live }) : gettext("nothing is published")];
    if (!enabled) words.push(gettext("archived"));
    if (this.isChanged()) words.push(gettext("unsaved changes"));
    at("state").textContent = words.join(" · ");
    if (!this.isEditable) return;
    at("undo").disabled = !this.history.before.length;
    at("redo").disabled = !this.history.after.length;
  }

  async reloadState() {
    await this.row.load();
    this.showState();
  }

  /** @returns {Promise<boolean>} whether the server has what the page shows */
  async save() {
    this.fields.clear();
    try {
      const changed = this.changes();
      if (Object.keys(changed).length) await this.row.save(changed);
      byId("clash").hidden = true;
      this.takeSaved();
      await this.check();
      const count = this.problems.length;
      const problems = ngettext("The draft is saved. One problem prevents publishing it.", "The draft is saved. %(number)s problems prevent publishing it.", count);
      tell(count ? problems : gettext("The draft is saved. Publish it to make it live."), "success");
      return true;
    } catch (error) {
      const problem = /** @type {Problem} */ (error);
      if (problem.status === 412) await resolveClash(this, byId("clash"));
      else this.complain(problem, gettext("Not saved."));
      return false;
    }
  }

  /** What the server now has is the draft; undo goes back beyond it. */
  takeSaved() {
    this.fields.fill(this.row.base);
    this.inputFields.read();
    this.outputFields.read();
    const saved = makeDraft(this.row.base);
    if (!ops.equal(saved, this.draft)) {
      this.history.push(saved);
      this.tools.fill(saved.grants);
    }
    this.refresh();
  }

  async check() {
    this.problems = (await api(`${this.path}/graph`)).problems;
    this.drawPicture();
    this.drawOutline();
    this.showInspector();
  }

  /** Each problem at its step or field, the others in one line. @param {Problem} problem @param {string} words */
  complain(problem, words) {
    const details = problem.details ?? [];
    const ofSteps = details.filter((detail) => detail.step && ops.stepOf(this.draft, detail.step));
    if (ofSteps.length) {
      this.problems = ofSteps.map(({ step, code = "", field = "", message = "", hint = "" }) => ({ step, code, message: [field, message].filter(Boolean).join(": "), hint }));
      this.select(ofSteps[0].step);
    }
    const rest = this.fields.point(details.filter((detail) => !ofSteps.includes(detail)));
    let reason = problem.message;
    if (details.length && !rest.length) reason = gettext("See the marked field.");
    if (ofSteps.length) reason = gettext("See step “%(step)s”.", { step: ofSteps[0].step });
    tell(`${words} ${reason}`);
  }

  fieldChanged() {
    const valueOf = (/** @type {string} */ name) => /** @type {any} */ (this.root.querySelector(`[data-field="${name}"]`))?.value ?? "";
    const [output, strategy] = [valueOf("output"), valueOf("strategy")];
    const isOfDraft = output !== this.draft.output || strategy !== this.draft.strategy;
    if (isOfDraft) this.change({ ...this.draft, output, strategy }, "fields");
    else this.refresh();
  }

  // -- keys and start ---------------------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event @returns {(() => any) | undefined} */
  actionFor(event) {
    const target = /** @type {Element} */ (event.target);
    const isTyping = target.closest("input, textarea, select, [contenteditable]");
    const step = target.closest("[data-step]");
    const key = step?.getAttribute("data-step") ?? "";
    const isControl = event.ctrlKey || event.metaKey;
    if (isControl && !event.altKey) {
      const letter = event.key.toLowerCase();
      if (letter === "s") return () => this.save();
      if (!isTyping && letter === "z") return () => this.goBack(!event.shiftKey);
      if (!isTyping && letter === "y") return () => this.goBack(false);
      return undefined;
    }
    if (!step || isTyping) return undefined;
    const by = /** @type {Record<string, number>} */ ({ ArrowUp: -1, ArrowDown: 1 })[event.key];
    if (event.altKey) {
      if (!by || key === START) return undefined;
      return () => {
        this.selected = key;
        this.move(by);
      };
    }
    if (event.key === "Delete" || event.key === "Backspace") return () => this.remove(key);
    return event.key === "n" ? () => this.add(key) : undefined;
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const action = this.actionFor(event);
    if (!action || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    if (this.isEditable) action();
  }

  listen() {
    document.addEventListener("keydown", (event) => this.onKey(event));
    for (const type of ["input", "change"]) {
      for (const panel of [byId("panel-settings"), byId("panel-use"), at("start-fields")]) panel.addEventListener(type, () => this.fieldChanged());
    }
    const actions = {
      add: () => this.add(),
      undo: () => this.goBack(true),
      redo: () => this.goBack(false),
      up: () => this.move(-1),
      down: () => this.move(1),
      copy: () => this.duplicate(),
      delete: () => this.remove(),
      connect: () => this.startConnecting(),
      alone: () => this.runAlone(),
      "to-try": () => this.showTry(),
      in: () => this.picture.zoom(1.25),
      out: () => this.picture.zoom(0.8),
      fit: () => this.picture.fit(),
      save: () => this.save(),
      publish: () => askToPublish(this, byId("publish")),
      archive: () => archive(this),
    };
    for (const [name, action] of Object.entries(actions)) at(name)?.addEventListener("click", action);
    const dialog = byId("publish");
    dialog?.addEventListener("close", () => {
      if (dialog.returnValue === "publish") publish(this, byId("note").value.trim(), byId("clash"));
      dialog.returnValue = "";
    });
    document.addEventListener("shown", (event) => this.load(/** @type {HTMLElement} */ (event.target).id));
    guard(() => this.isChanged());
  }

  startConnecting() {
    this.picture.focus(this.selected);
    this.picture.begin(this.selected);
  }

  runAlone() {
    const key = this.selected;
    this.showTry();
    this.trial?.runAlone(key);
  }

  /** @param {string} tab */
  load(tab) {
    const loaders = /** @type {Record<string, () => any>} */ ({
      versions: () => this.versions.show(),
      settings: () => this.tools.look(),
      use: () => showUsers(at("users"), this.path),
      build: () => this.picture.look(),
    });
    Promise.resolve(loaders[tab]?.()).catch((/** @type {Error} */ error) => tell(error.message));
  }

  async start() {
    this.listen();
    await this.row.load();
    this.history.reset(makeDraft(this.row.base));
    this.fields.fill(this.row.base);
    this.isReady = true;
    this.selected = this.draft.steps[0]?.key ?? START;
    this.replaced();
    for (const button of document.querySelectorAll("[data-waits]")) button.removeAttribute("disabled");
    await Promise.all([this.check(), this.learnLast()]);
    const shown = document.querySelector("#chain-tabs [aria-selected=true]");
    this.load(shown?.id ?? "");
    localise(this.root);
  }
}

/** @param {any} row @returns {Draft} */
const makeDraft = (row) => ({ steps: row.steps.map(ops.tidy), grants: structuredClone(row.grants), output: row.output, strategy: row.strategy });

/** Pins are kept for this tab of the browser. @param {string} place @returns {[string, any][]} */
function loadPins(place) {
  try {
    return JSON.parse(sessionStorage.getItem(place) ?? "[]");
  } catch {
    return [];
  }
}

/** @param {string} place @param {Map<string, any>} pins */
function savePins(place, pins) {
  try {
    sessionStorage.setItem(place, JSON.stringify([...pins]));
  } catch {
    // They are too large for the browser's storage: they last as long as the page.
  }
}

const root = document.getElementById("chain-editor");
if (root) new Editor(root).start().catch((/** @type {Error} */ error) => tell(error.message));
