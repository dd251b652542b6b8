// The inspector of one step: what it runs, its input, when it runs, what happens on failure, and its last run.
import { make } from "../page.js";
import { sitePath } from "../site.js";
import { gettext, word } from "../texts.js";
import { findTargets } from "./catalog.js";
import { makeCondition, makeExpressionFold, makeFieldChoice, waitForSource } from "./conditions.js";
import { change, connect, disconnect, grant, kindOf, misnamed, needsOf, refusal, rename, replace, stepOf, targetOf, withTarget } from "./draft.js";
import { expressionFor, jsonOr, makeInputs } from "./inputs.js";
import { pick } from "./picker.js";
import { listReadable } from "./readable.js";

/** @typedef {Record<string, any>} Step */
/** @typedef {import("./editor.js").Editor} Editor */
/** @typedef {import("./catalog.js").About} About */
/** @typedef {import("./readable.js").Readable} Readable */

// Fields of a step that have a control of their own; the others are written as JSON.
const WITH_CONTROL = new Set(["key", "agent", "tool", "chain", "target_kind", "target", "target_version", "needs", "input", "when", "for_each", "max_parallel", "repeat_until", "on_error", "fallback", "retry", "timeout_s", "approval", "approval_expires_s", "policy", "max_turns", "model", "instructions"]);
const MAX_SHOWN = 20_000;
const MAX_ITEMS = 20;

/** @returns {[string, string][]} */
const failureChoices = () => [["stop", gettext("The run stops")], ["continue", gettext("The next steps go on")], ["fallback", gettext("Another step runs instead")]];
/** @returns {[string, string][]} */
const modeChoices = () => [["allow", gettext("without asking")], ["ask", gettext("ask before each call")], ["deny", gettext("never")]];

export class Inspector {
  /** @param {HTMLElement} root has a place for each part: head, input, when, failing, last @param {Editor} editor */
  constructor(root, editor) {
    this.root = root;
    this.editor = editor;
    this.key = "";
    /** @type {Set<string>} folds that the person opened */
    this.openFolds = new Set();
  }

  /** @returns {Step} */
  get step() { return stepOf(this.editor.draft, this.key) ?? { key: this.key }; }

  /** @param {string} name */
  place(name) { return /** @type {HTMLElement} */ (this.root.querySelector(`[data-part="${name}"]`)); }

  /** @param {string} key */
  async show(key) {
    this.key = key;
    const step = stepOf(this.editor.draft, key);
    if (!step) return;
    const { editor } = this;
    const about = await editor.catalog.describe(kindOf(step), targetOf(step));
    const [forInput, forWhen, forRepeat] = await Promise.all([listReadable(editor, step, "input"), listReadable(editor, step, "when"), listReadable(editor, step, "repeat")]);
    // Another step was chosen, or this one was deleted, while the schemas were read.
    if (this.key !== key || !stepOf(editor.draft, key)) return;
    const focused = this.root.contains(document.activeElement) ? document.activeElement?.id : "";
    this.place("head").replaceChildren(...this.makeHead(about));
    this.place("input").replaceChildren(...makeInputs(this, about, forInput), ...this.makeMore(about));
    this.place("when").replaceChildren(...this.makeWhen(about, forWhen, forRepeat));
    this.place("failing").replaceChildren(...this.makeFailing());
    this.place("last").replaceChildren(...this.makeLast());
    if (!editor.isEditable) {
      for (const control of this.root.querySelectorAll("input, select, textarea, [data-part] button")) control.setAttribute("disabled", "");
    }
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  /** @param {Record<string, any>} values @param {string} field so that typing in it is one change to undo */
  set(values, field) { this.editor.change(change(this.editor.draft, this.key, values), `${this.key}/${field}`); }

  again() { return this.show(this.key); }

  // -- what it runs -----------------------------------------------------------------------------------------------------

  /** @param {About} about @returns {Node[]} */
  makeHead(about) {
    const name = make("input", { id: "step-key", value: this.key, maxLength: 64, autocomplete: "off", spellcheck: false });
    const wrong = make("p", { className: "wrong", role: "alert", hidden: true });
    name.addEventListener("change", () => {
      const wish = name.value.trim();
      wrong.textContent = misnamed(this.editor.draft, this.key, wish);
      wrong.hidden = !wrong.textContent;
      if (wrong.textContent) {
        name.setAttribute("aria-invalid", "true");
        return;
      }
      name.removeAttribute("aria-invalid");
      if (wish !== this.key) this.editor.renamed(rename(this.editor.draft, this.key, wish), this.key, wish);
    });
    const problems = this.editor.problemsOf(this.key).map(({ message, hint }) => {
      const text = [message, hint].filter(Boolean).join(" ");
      return make("p", { className: "note error small", textContent: text });
    });
    const label = make("label", { htmlFor: "step-key", textContent: gettext("Name of the step") });
    return [...problems, label, name, wrong, ...this.makeTarget(about)];
  }

  /** @param {About} about @returns {Node[]} */
  makeTarget(about) {
    const kind = kindOf(this.step);
    const name = targetOf(this.step);
    const isRouter = kind === "router";
    const spoken = isRouter ? gettext("an agent chosen by the router") : `${word(kind)} ${name || gettext("nothing yet")}`;
    const choose = make("button", {
      type: "button",
      id: "step-target",
      textContent: isRouter ? gettext("Chosen by the router") : name || gettext("Choose…"),
      ariaLabel: gettext("Runs %(what)s. Change", { what: spoken }),
      onclick: () => this.chooseTarget(),
    });
    const row = make("div", { className: "row" }, make("span", { className: "small soft", textContent: word(kind) }), choose);
    const isTool = kind === "tool" && name;
    const mayCall = isTool ? this.editor.grantOf(name) : undefined;
    if (mayCall) row.append(this.makeMode(name, mayCall.mode, about));
    const page = /** @type {Record<string, string>} */ ({ agent: "agents", chain: "chains" })[kind];
    if (page && name) row.append(make("a", { className: "small", href: sitePath(`/${page}/${encodeURIComponent(name)}/`), textContent: gettext("Open it") }));
    const unknown = gettext("You cannot see “%(name)s”, or it does not exist.", { name });
    const help = make("p", { className: "help brief", textContent: about.missing && name ? unknown : about.description, title: about.description });
    return [row, help, ...(isTool && !mayCall ? [this.makeGrant(name, about)] : [])];
  }

  async chooseTarget() {
    const { editor } = this;
    const chosen = await pick({ title: gettext("What does the step run?"), find: (text) => findTargets(editor.name, text) });
    if (!chosen) return;
    const draft = replace(editor.draft, this.key, withTarget(this.step, chosen.kind, chosen.name));
    const needsGrant = chosen.kind === "tool" && !editor.grantOf(chosen.name);
    editor.change(needsGrant ? grant(draft, { ...chosen, kind: chosen.toolKind }) : draft);
    this.again();
  }

  /** @param {string} tool @param {string} mode @param {About} about */
  giveGrant(tool, mode, about) {
    this.editor.change(grant(this.editor.draft, { name: tool, kind: about.kind, effect: about.effect }, mode));
    this.again();
  }

  /** Whether the chain asks before it calls the tool. @param {string} tool @param {string} mode @param {About} about */
  makeMode(tool, mode, about) {
    const select = this.makeChoice("step-grant", modeChoices(), mode, (chosen) => this.giveGrant(tool, chosen, about));
    select.ariaLabel = gettext("The chain may call it");
    select.title = about.effect ? gettext("effect: %(effect)s", { effect: word(about.effect) }) : "";
    return select;
  }

  /** @param {string} tool @param {About} about */
  makeGrant(tool, about) {
    const text = make("span", { textContent: gettext("The chain is not allowed to call this tool yet.") });
    const button = make("button", { type: "button", id: "step-grant", className: "primary", textContent: gettext("Grant it"), onclick: () => this.giveGrant(tool, "", about) });
    return make("div", { className: "note warning row" }, text, button);
  }

  // -- when and how often -----------------------------------------------------------------------------------------------

  /** @param {About} about @param {Readable[]} readable @param {Readable[]} forRepeat @returns {Node[]} */
  makeWhen(about, readable, forRepeat) {
    const condition = makeCondition(this, {
      id: "step-when",
      expression: this.step.when ?? "",
      readable,
      isRepeat: false,
      onChange: (when) => this.set({ when }, "when"),
    });
    const onlyIf = make("p", { className: "label", textContent: gettext("Only if") });
    return [onlyIf, ...condition, ...this.makeLoop(about, readable), ...this.makeRepeat(forRepeat), ...this.makeNeeds()];
  }

  /** @returns {Node[]} */
  makeNeeds() {
    const { step, editor } = this;
    const needs = needsOf(editor.draft).get(this.key) ?? [];
    const own = step.needs ?? [];
    const chips = needs.map((need) => {
      const isOwn = own.includes(need);
      const remove = () => {
        editor.change(disconnect(editor.draft, need, this.key));
        this.again();
      };
      const button = make("button", { type: "button", className: "small", ariaLabel: gettext("No longer wait for %(need)s", { need }), disabled: !isOwn, onclick: remove }, need, isOwn ? " ×" : "");
      return make("li", {}, button);
    });
    const free = editor.draft.steps.map((other) => other.key).filter((key) => key !== this.key && !needs.includes(key));
    const options = /** @type {[string, string][]} */ ([["", gettext("Wait for another step…")], ...free.map((key) => [key, key])]);
    const wrong = make("p", { className: "wrong", role: "alert", hidden: true });
    const select = this.makeChoice("step-needs", options, "", (key) => {
      wrong.textContent = refusal(editor.draft, key, this.key);
      wrong.hidden = !wrong.textContent;
      if (wrong.textContent) {
        select.value = "";
        return;
      }
      editor.change(connect(editor.draft, key, this.key));
      this.again();
    });
    const label = make(free.length ? "label" : "p", { className: "label", textContent: gettext("Waits for") });
    if (free.length) label.setAttribute("for", select.id);
    const list = make("ul", { className: "row chips", ariaLabel: gettext("Steps that it waits for") }, ...chips);
    const atOnce = make("p", { className: "help", textContent: gettext("It starts with the run.") });
    return [label, needs.length ? list : atOnce, ...(free.length ? [select, wrong] : [])];
  }

  /** @param {About} about @param {Readable[]} readable @returns {Node[]} */
  makeLoop(about, readable) {
    const each = this.step.for_each ?? "";
    const lists = readable.filter((field) => ["list", "object", ""].includes(field.type) || field.path === each);
    const isOffered = !each || lists.some((field) => field.path === each);
    const select = makeFieldChoice({
      id: "step-each",
      label: gettext("For each item of"),
      nothing: gettext("once"),
      value: each,
      readable: lists,
      onChange: (path) => {
        waitForSource(this, readable, path);
        this.setLoop(path);
        this.fillWithItem(about, readable, path);
        this.again();
      },
    });
    const { fold } = makeExpressionFold("step-each-code", each, gettext("The list as an expression"), !isOffered, (text) => {
      const wasLoop = Boolean(this.step.for_each);
      this.setLoop(text);
      if (wasLoop !== Boolean(text)) this.again();
    });
    const parts = [make("label", { htmlFor: "step-each", textContent: gettext("For each item of") }), select, fold];
    if (!each) return [...parts, make("p", { className: "help", textContent: gettext("A list or an object: the step runs once for each item, which its input reads as item.") })];
    const parallel = this.makeNumber("step-parallel", gettext("Items at the same time"), this.step.max_parallel, "8", (value) => this.set({ max_parallel: value }, "parallel"));
    return [...parts, ...parallel];
  }

  /** @param {string} each */
  setLoop(each) {
    const values = each ? { for_each: each } : { for_each: "", max_parallel: null };
    this.set(values, "each");
  }

  /** A loop is for the item: the one parameter that still needs a value takes it. @param {About} about @param {Readable[]} readable @param {string} each */
  fillWithItem(about, readable, each) {
    const given = this.step.input ?? {};
    const missing = (about.input?.required ?? []).filter((/** @type {string} */ name) => !(name in given));
    if (!each || missing.length !== 1) return;
    const [name] = missing;
    const item = [...readable, { path: "item", type: "text", label: "", group: "", connect: "" }];
    this.set({ input: { ...given, [name]: expressionFor(about.input?.properties?.[name], item, "item") } }, "each");
  }

  /** @param {Readable[]} readable @returns {Node[]} */
  makeRepeat(readable) {
    const repeat = this.step.repeat_until;
    const tick = make("input", { type: "checkbox", id: "step-repeat", checked: Boolean(repeat) });
    tick.addEventListener("change", () => {
      this.set({ repeat_until: tick.checked ? { condition: "output", limit: 5 } : null }, "");
      this.again();
    });
    const line = make("div", { className: "row" }, tick, make("label", { htmlFor: "step-repeat", textContent: gettext("Repeat it until a condition holds") }));
    if (!repeat) return [line];
    const condition = makeCondition(this, {
      id: "step-until",
      expression: repeat.condition,
      readable,
      isRepeat: true,
      onChange: (text) => this.set({ repeat_until: { ...this.step.repeat_until, condition: text } }, "until"),
    });
    const limit = this.makeNumber("step-limit", gettext("At most this often"), repeat.limit, "5", (value) => this.set({ repeat_until: { ...this.step.repeat_until, limit: value ?? 5 } }, "limit"));
    return [line, ...condition, ...limit];
  }

  // -- failure and approval ---------------------------------------------------------------------------------------------

  /** @returns {Node[]} */
  makeFailing() {
    const { step, editor } = this;
    const onError = this.makeChoice("step-failing", failureChoices(), step.on_error ?? "stop", (value) => {
      const isUsual = value === "stop";
      this.set({ on_error: isUsual ? null : value, ...(value === "fallback" ? {} : { fallback: null }) }, "");
      this.again();
    });
    const parts = /** @type {Node[]} */ ([make("label", { htmlFor: "step-failing", textContent: gettext("If it fails") }), onError]);
    if (step.on_error === "fallback") {
      const others = editor.draft.steps.map((other) => other.key).filter((key) => key !== this.key);
      const options = /** @type {[string, string][]} */ ([["", gettext("Choose…")], ...others.map((key) => [key, key])]);
      parts.push(make("label", { htmlFor: "step-fallback", textContent: gettext("Step that runs instead") }), this.makeChoice("step-fallback", options, step.fallback ?? "", (value) => this.set({ fallback: value }, "")));
    }
    const retry = (/** @type {Record<string, any>} */ values, /** @type {string} */ field) => this.set({ retry: withoutEmpty({ ...this.step.retry, ...values }) }, field);
    parts.push(...this.makeNumber("step-attempts", gettext("Tries in all"), step.retry?.attempts, "1", (attempts) => retry({ attempts }, "attempts")));
    if ((step.retry?.attempts ?? 1) > 1) {
      parts.push(...this.makeNumber("step-backoff", gettext("Seconds before the next try"), step.retry?.backoff_s, "1", (backoff_s) => retry({ backoff_s }, "backoff")));
    }
    parts.push(...this.makeNumber("step-timeout", gettext("Time limit in seconds"), step.timeout_s, "300", (timeout_s) => this.set({ timeout_s }, "timeout")));
    const approval = make("input", { type: "checkbox", id: "step-approval", checked: Boolean(step.approval) });
    approval.addEventListener("change", () => this.set({ approval: approval.checked || null }, ""));
    parts.push(make("div", { className: "row" }, approval, make("label", { htmlFor: "step-approval", textContent: gettext("Ask a person before it starts") })));
    return parts;
  }

  // -- what few steps need ----------------------------------------------------------------------------------------------

  /** @param {About} about @returns {Node[]} */
  makeMore(about) {
    const kind = kindOf(this.step);
    const isAgent = kind === "agent" || kind === "router";
    return isAgent && !about.missing ? [this.makeAgentOptions(), this.makeOthers()] : [this.makeOthers()];
  }

  makeAgentOptions() {
    const { step } = this;
    const setPolicy = (/** @type {Record<string, any>} */ values, /** @type {string} */ field) => this.set({ policy: withoutEmpty({ ...this.step.policy, ...values }) }, field);
    const isNarrow = Array.isArray(step.policy?.allowed);
    const narrow = make("input", { type: "checkbox", id: "step-narrow", checked: isNarrow });
    narrow.addEventListener("change", () => {
      setPolicy({ allowed: narrow.checked ? [] : null }, "");
      this.again();
    });
    const makeNames = (/** @type {string} */ id, /** @type {string} */ words, /** @type {string} */ name) => {
      const area = make("textarea", { id, rows: 2, value: (step.policy?.[name] ?? []).join("\n"), spellcheck: false });
      area.addEventListener("input", () => {
        const names = area.value.split("\n").map((line) => line.trim()).filter(Boolean);
        const isKept = names.length > 0 || name === "allowed";
        setPolicy({ [name]: isKept ? names : null }, id);
      });
      return [make("label", { htmlFor: id, textContent: words }), area];
    };
    const model = make("input", { id: "step-model", value: step.model ?? "", autocomplete: "off", spellcheck: false, placeholder: gettext("that of the agent") });
    model.addEventListener("input", () => this.set({ model: model.value.trim() }, "model"));
    const text = make("textarea", { id: "step-instructions", rows: 3, value: step.instructions ?? "" });
    text.addEventListener("input", () => this.set({ instructions: text.value }, "instructions"));
    return this.makeFold("agent", gettext("Model, instructions and tools of this step"),
      make("label", { htmlFor: "step-model", textContent: gettext("Model") }), model,
      make("label", { htmlFor: "step-instructions", textContent: gettext("More instructions") }), text,
      make("div", { className: "row" }, narrow, make("label", { htmlFor: "step-narrow", textContent: gettext("Only some of the agent's tools") })),
      ...(isNarrow ? makeNames("step-allowed", gettext("Tools that it may use, one on each line"), "allowed") : []),
      ...makeNames("step-blocked", gettext("Tools that it may not use"), "blocked"),
      ...makeNames("step-ask", gettext("Tools that ask first"), "ask"),
      ...this.makeNumber("step-turns", gettext("Turns at most"), step.max_turns, gettext("those of the agent"), (turns) => this.set({ max_turns: turns }, "turns")));
  }

  /** Fields without a control, as JSON: nothing is hidden, and nothing is lost. */
  makeOthers() {
    const others = Object.fromEntries(Object.entries(this.step).filter(([name]) => !WITH_CONTROL.has(name)));
    const text = Object.keys(others).length ? JSON.stringify(others, null, 2) : "";
    const area = make("textarea", { id: "step-others", className: "code", rows: 4, spellcheck: false, value: text });
    const wrong = make("p", { className: "wrong", role: "alert", hidden: true });
    area.addEventListener("change", () => {
      try {
        const values = area.value.trim() ? JSON.parse(area.value) : {};
        wrong.hidden = true;
        const controlled = Object.fromEntries(Object.entries(this.step).filter(([name]) => WITH_CONTROL.has(name)));
        this.editor.change(replace(this.editor.draft, this.key, { ...controlled, ...values }));
      } catch (error) {
        wrong.hidden = false;
        wrong.textContent = gettext("This is not JSON: %(problem)s", { problem: /** @type {Error} */ (error).message });
      }
    });
    return this.makeFold("others", gettext("Advanced"),
      ...this.makeNumber("step-version", gettext("Version of the target (empty: the live one)"), this.step.target_version, "", (version) => this.set({ target_version: version }, "version")),
      make("label", { htmlFor: "step-others", textContent: gettext("Other fields as JSON") }), area, wrong,
      make("p", { className: "help", textContent: gettext("For example output_schema, covers, context, variables.") }));
  }

  // -- the last run -----------------------------------------------------------------------------------------------------

  /** @returns {Node[]} */
  makeLast() {
    const { editor, key } = this;
    const pin = editor.pins.get(key);
    const row = editor.lastOf(key);
    if (!row && !pin) return [make("p", { className: "soft", textContent: gettext("It has not run yet. “Try it” runs the draft.") })];
    const parts = [];
    if (row) {
      const state = row.pinned ? gettext("%(status)s, output given", { status: word(row.status) }) : word(row.status);
      const link = make("a", { href: sitePath(`/runs/${row.child ?? row.run}/`), textContent: row.child ? gettext("Open the run of this step") : gettext("Open the run") });
      parts.push(make("p", { className: "row small" }, make("span", { className: `pill ${row.status}`, textContent: state }), link));
      if (row.error) parts.push(make("p", { className: "note error small", textContent: row.error.message ?? row.error.code }));
      parts.push(...this.makeItems(), ...makeJson(gettext("Input"), row.input), ...makeJson(gettext("Output"), row.output));
    }
    parts.push(...this.makePinning(pin, row));
    return parts;
  }

  /** The items of a loop, with those first that failed. @returns {Node[]} */
  makeItems() {
    const rows = this.editor.itemsOf(this.key);
    if (!rows.length) return [];
    const isBad = (/** @type {any} */ row) => (["succeeded", "skipped"].includes(row.status) ? 1 : 0);
    const lines = rows.toSorted((one, other) => isBad(one) - isBad(other)).slice(0, MAX_ITEMS).map((row) => {
      const reason = row.error ? (row.error.message ?? row.error.code) : "";
      const link = row.child ? make("a", { href: sitePath(`/runs/${row.child}/`), textContent: gettext("run") }) : null;
      return make("li", { className: "row small" }, make("b", { textContent: gettext("Item %(number)s", { number: row.item + 1 }) }), make("span", { className: `pill ${row.status}`, textContent: word(row.status) }), link, reason);
    });
    return [make("p", { className: "label small", textContent: gettext("Items of the loop") }), make("ul", { className: "stack tight" }, ...lines)];
  }

  /** @param {Record<string, any> | undefined} pin @param {any} row @returns {Node[]} */
  makePinning(pin, row) {
    const { editor, key } = this;
    const pinWith = (/** @type {any} */ value) => {
      editor.pin(key, value);
      this.again();
    };
    if (!pin) {
      const isDone = row && ["succeeded", "partial"].includes(row.status);
      if (!isDone) return [];
      const button = make("button", { type: "button", id: "step-pin", textContent: gettext("Pin this output"), onclick: () => pinWith({ run: row.run }) });
      return [make("div", {}, button), make("p", { className: "help", textContent: gettext("A try then uses this output, and the step does not run.") })];
    }
    const value = "value" in pin ? pin.value : row?.output;
    const area = make("textarea", { id: "step-pinned", className: "code", rows: 5, spellcheck: false, value: JSON.stringify(value ?? null, null, 2) });
    area.addEventListener("change", () => editor.pin(key, { ...(pin.run ? { run: pin.run } : {}), value: jsonOr(area.value) }));
    const unpin = make("button", { type: "button", id: "step-pin", textContent: gettext("Unpin"), onclick: () => pinWith(null) });
    const note = make("span", { className: "small soft", textContent: gettext("Tries use it; the published chain does not.") });
    return [make("label", { htmlFor: "step-pinned", textContent: gettext("Pinned output") }), area, make("div", { className: "row" }, unpin, note)];
  }

  // -- controls ---------------------------------------------------------------------------------------------------------

  /** @param {string} name @param {string} title @param {(Node | null)[]} children */
  makeFold(name, title, ...children) {
    const fold = make("details", { className: "fold", open: this.openFolds.has(name) }, make("summary", { textContent: title }), make("div", { className: "form" }, ...children));
    fold.addEventListener("toggle", () => {
      if (fold.open) this.openFolds.add(name);
      else this.openFolds.delete(name);
    });
    return fold;
  }

  /** @param {string} id @param {[string, string][]} options @param {string} value @param {(value: string) => void} onChange */
  makeChoice(id, options, value, onChange) {
    const select = make("select", { id });
    for (const [one, words] of options) select.append(make("option", { value: one, textContent: words, selected: one === value }));
    select.addEventListener("change", () => onChange(select.value));
    return select;
  }

  /** @param {string} id @param {string} words @param {number | null | undefined} value @param {string} usual @param {(value: number | null) => void} onChange */
  makeNumber(id, words, value, usual, onChange) {
    const input = make("input", { id, inputMode: "decimal", value: value ?? "", placeholder: usual, autocomplete: "off" });
    input.addEventListener("input", () => {
      const typed = input.value.trim();
      const number = Number(typed);
      if (Number.isNaN(number)) {
        input.setAttribute("aria-invalid", "true");
        return;
      }
      input.removeAttribute("aria-invalid");
      onChange(typed === "" ? null : number);
    });
    return [make("label", { htmlFor: id, textContent: words }), input];
  }
}

/** @param {string} words @param {any} value @returns {Node[]} */
function makeJson(words, value) {
  if (value === null || value === undefined) return [];
  const text = JSON.stringify(value, null, 2).slice(0, MAX_SHOWN);
  return [make("p", { className: "label small", textContent: words }), make("pre", { className: "json", tabIndex: 0, role: "region", ariaLabel: words, textContent: text })];
}

/** @param {Record<string, any>} values */
function withoutEmpty(values) {
  const isThere = (/** @type {[string, any]} */ [, value]) => value !== null && value !== undefined;
  return Object.fromEntries(Object.entries(values).filter(isThere));
}
