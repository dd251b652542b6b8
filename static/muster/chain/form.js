// The form of one step. It shows the step as words, fields and expressions, and hands each change to the editor.
import { make } from "../page.js";
import { sitePath } from "../site.js";
import { change, connect, disconnect, grant, kindOf, misnamed, needsOf, refusal, rename, replace, stepOf, targetOf, upstream, withTarget } from "./draft.js";
import { inputs, jsonOr } from "./inputs.js";
import { pick, targets } from "./picker.js";
import { readableFields } from "./readable.js";
import { COMPARISONS, conditionInWords, conditionOf, expressionOf } from "./words.js";
import { gettext, word } from "../texts.js";

/** @typedef {Record<string, any>} Step */
/** @typedef {import("./editor.js").Editor} Editor */
/** @typedef {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} Control */

const KNOWN = new Set(["key", "agent", "tool", "chain", "target_kind", "target", "target_version", "needs", "input", "when", "for_each", "max_parallel", "repeat_until", "on_error", "fallback", "retry", "timeout_s", "approval", "approval_expires_s", "policy", "max_turns", "model", "instructions"]);
const FAILING = /** @type {[string, string][]} */ ([["stop", gettext("The run stops")], ["continue", gettext("The next steps go on")], ["fallback", gettext("Another step runs instead")]]);
const MODES = /** @type {[string, string][]} */ ([["allow", gettext("without asking")], ["ask", gettext("ask before each call")], ["deny", gettext("never")]]);

export class StepForm {
  /** @param {HTMLElement} place @param {Editor} editor */
  constructor(place, editor) {
    this.place = place;
    this.editor = editor;
    this.key = "";
    this.open = new Set(["input", "when"]);
  }

  /** @returns {Step} */
  get step() { return stepOf(this.editor.draft, this.key) ?? { key: this.key }; }

  /** @param {string} key */
  async show(key) {
    this.key = key;
    const step = stepOf(this.editor.draft, key);
    if (!step) { this.place.replaceChildren(make("p", { className: "soft", textContent: this.editor.draft.steps.length ? gettext("Choose a step in the picture or in the list.") : gettext("Add the first step: an agent, a tool or another chain.") })); return; }
    const about = await this.editor.catalog.about(kindOf(step), targetOf(step));
    if (this.key !== key || !stepOf(this.editor.draft, key)) return; // another step was chosen meanwhile
    const focused = this.place.contains(document.activeElement) ? document.activeElement?.id : "";
    this.place.replaceChildren(...[this.head(), this.target(about), inputs(this, about), this.timing(), this.failing(), kindOf(step) === "tool" ? null : this.limits(), this.others(), this.last()].filter((part) => part !== null));
    if (!this.editor.isEditable) for (const control of this.place.querySelectorAll("input, select, textarea, button:not([data-reads])")) control.setAttribute("disabled", "");
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  /** @param {Record<string, any>} values @param {string} about the field, so that typing is one change */
  set(values, about) { this.editor.change(change(this.editor.draft, this.key, values), `${this.key}/${about}`); }

  again() { return this.show(this.key); }

  // -- parts ------------------------------------------------------------------------------------------------------------

  head() {
    const name = make("input", { id: "step-key", value: this.key, maxLength: 64, autocomplete: "off", spellcheck: false });
    const wrong = make("p", { className: "wrong", role: "alert", hidden: true });
    name.addEventListener("change", () => {
      const wish = name.value.trim();
      wrong.textContent = misnamed(this.editor.draft, this.key, wish);
      wrong.hidden = !wrong.textContent;
      name.toggleAttribute("aria-invalid", !wrong.hidden);
      if (!wrong.hidden || wish === this.key) return;
      this.editor.renamed(rename(this.editor.draft, this.key, wish), this.key, wish);
    });
    const problems = this.editor.problemsOf(this.key).map(({ message, hint }) => make("p", { className: "note error small", textContent: [message, hint].filter(Boolean).join(" ") }));
    return make("div", { className: "form" }, ...problems, make("label", { htmlFor: "step-key", textContent: gettext("Name of the step") }), name, wrong);
  }

  /** @param {import("./picker.js").About} about */
  target(about) {
    const { step } = this;
    const kind = kindOf(step);
    const choose = make("button", { type: "button", id: "step-target", textContent: kind === "router" ? gettext("Chosen by the router") : targetOf(step) || gettext("Choose…"), ariaLabel: gettext("Runs %(what)s. Change", { what: kind === "router" ? gettext("an agent chosen by the router") : `${word(kind)} ${targetOf(step) || gettext("nothing yet")}` }) });
    choose.addEventListener("click", async () => {
      const found = await pick({ title: gettext("What does the step run?"), find: (text) => targets(this.editor.name, text) });
      if (!found) return;
      const draft = replace(this.editor.draft, this.key, withTarget(this.step, found.kind, found.name));
      this.editor.change(found.kind === "tool" && !this.editor.grantOf(found.name) ? grant(draft, { ...found, kind: found.toolKind }) : draft);
      this.again();
    });
    const pages = /** @type {Record<string, string>} */ ({ agent: "agents", chain: "chains" });
    const link = pages[kind] && targetOf(step) ? [make("a", { className: "small", href: sitePath(`/${pages[kind]}/${encodeURIComponent(targetOf(step))}/`), textContent: kind === "chain" ? gettext("Open the chain") : gettext("Open the agent") })] : [];
    return make("div", { className: "form" }, make("p", { className: "label", textContent: gettext("It runs") }), make("div", { className: "row" }, choose, make("span", { className: "small soft", textContent: word(kind) }), ...link),
      make("p", { className: "help", textContent: about.missing && targetOf(step) ? gettext("You cannot see “%(name)s”, or it does not exist.", { name: targetOf(step) }) : about.description }), ...(kind === "tool" && targetOf(step) ? [this.granted(about)] : []));
  }

  /** @param {import("./picker.js").About} about */
  granted(about) {
    const name = targetOf(this.step);
    const own = this.editor.grantOf(name);
    const give = (/** @type {string} */ mode) => { this.editor.change(grant(this.editor.draft, { name, kind: about.kind, effect: about.effect }, mode)); this.again(); };
    if (!own) return make("div", { className: "note warning row" }, make("span", { textContent: gettext("The chain is not allowed to call this tool yet.") }), make("button", { type: "button", id: "step-grant", className: "primary", textContent: gettext("Grant it"), onclick: () => give("") }));
    const select = this.choice("step-grant", MODES, own.mode, give);
    return make("div", { className: "row" }, make("label", { htmlFor: "step-grant", className: "small", textContent: gettext("The chain may call it") }), select, make("span", { className: "small soft", textContent: about.effect ? gettext("effect: %(effect)s", { effect: word(about.effect) }) : "" }));
  }

  timing() {
    const { step, editor } = this;
    const needs = needsOf(editor.draft).get(this.key) ?? [];
    const chips = needs.map((need) => make("li", {}, make("button", { type: "button", className: "small", ariaLabel: gettext("No longer wait for %(need)s", { need }), disabled: !(step.needs ?? []).includes(need), onclick: () => { editor.change(disconnect(editor.draft, need, this.key)); this.again(); } }, need, (step.needs ?? []).includes(need) ? " ×" : "")));
    const free = editor.draft.steps.map((one) => one.key).filter((one) => one !== this.key && !needs.includes(one));
    const select = make("select", { id: "step-needs" }, make("option", { value: "", textContent: gettext("Wait for another step…") }), ...free.map((one) => make("option", { value: one, textContent: one })));
    const wrong = make("p", { className: "wrong", role: "alert", hidden: true });
    select.addEventListener("change", () => {
      wrong.textContent = refusal(editor.draft, select.value, this.key);
      wrong.hidden = !wrong.textContent;
      if (wrong.textContent) { select.value = ""; return; }
      editor.change(connect(editor.draft, select.value, this.key));
      this.again();
    });
    return this.fold("when", gettext("When and how often"), make("label", { htmlFor: "step-needs", textContent: gettext("Waits for") }), make("ul", { className: "row chips", ariaLabel: gettext("Steps that it waits for") }, ...chips), ...(free.length ? [select, wrong] : []), ...(needs.length ? [] : [make("p", { className: "help", textContent: gettext("It starts with the run.") })]),
      make("p", { className: "label", textContent: gettext("Only if") }), ...this.condition("step-when", step.when ?? "", "when", (when) => this.set({ when }, "when")),
      make("label", { htmlFor: "step-each", textContent: gettext("For each item of") }), this.expression("step-each", step.for_each ?? "", "each", (each) => this.each(each)),
      make("p", { className: "help", textContent: gettext("Empty: once. A list or an object: once for each item, which the input then reads as item; the output is the list of results.") }),
      ...(step.for_each ? this.number("step-parallel", gettext("Items at the same time"), step.max_parallel, (value) => this.set({ max_parallel: value }, "parallel"), "8") : []),
      ...this.repeating());
  }

  /** @param {string} each */
  each(each) {
    const was = Boolean(this.step.for_each);
    this.set({ for_each: each, ...(each ? {} : { max_parallel: null }) }, "each");
    if (was !== Boolean(each)) this.again();
  }

  repeating() {
    const repeat = this.step.repeat_until;
    const tick = make("input", { type: "checkbox", id: "step-repeat", checked: Boolean(repeat) });
    tick.addEventListener("change", () => { this.set({ repeat_until: tick.checked ? { condition: "output", limit: 5 } : null }, ""); this.again(); });
    const line = make("div", { className: "row" }, tick, make("label", { htmlFor: "step-repeat", textContent: gettext("Repeat it until a condition holds") }));
    if (!repeat) return [line];
    return [line, ...this.condition("step-until", repeat.condition, "repeat", (condition) => this.set({ repeat_until: { ...this.step.repeat_until, condition } }, "until")), ...this.number("step-limit", gettext("At most this often"), repeat.limit, (limit) => this.set({ repeat_until: { ...this.step.repeat_until, limit: limit ?? 5 } }, "limit"), "5")];
  }

  failing() {
    const { step, editor } = this;
    const onError = this.choice("step-failing", FAILING, step.on_error ?? "stop", (value) => { this.set({ on_error: value === "stop" ? null : value, ...(value === "fallback" ? {} : { fallback: null }) }, ""); this.again(); });
    const others = editor.draft.steps.map((one) => one.key).filter((one) => one !== this.key);
    const fallback = this.choice("step-fallback", [["", gettext("Choose…")], ...others.map((one) => /** @type {[string, string]} */ ([one, one]))], step.fallback ?? "", (value) => this.set({ fallback: value }, ""));
    const retry = (/** @type {Record<string, any>} */ values) => this.set({ retry: clean({ ...this.step.retry, ...values }) }, `retry-${Object.keys(values)[0]}`);
    const approval = make("input", { type: "checkbox", id: "step-approval", checked: Boolean(step.approval) });
    approval.addEventListener("change", () => this.set({ approval: approval.checked || null }, ""));
    return this.fold("failing", gettext("If it fails, and approval"), make("label", { htmlFor: "step-failing", textContent: gettext("If it fails") }), onError, ...(step.on_error === "fallback" ? [make("label", { htmlFor: "step-fallback", textContent: gettext("Step that runs instead") }), fallback] : []),
      make("div", { className: "grid" }, make("div", { className: "form" }, ...this.number("step-attempts", gettext("Tries in all"), step.retry?.attempts, (attempts) => retry({ attempts }), "1")), make("div", { className: "form" }, ...this.number("step-backoff", gettext("Seconds before the next try"), step.retry?.backoff_s, (backoff) => retry({ backoff_s: backoff }), "1"))),
      ...this.number("step-timeout", gettext("Time limit in seconds"), step.timeout_s, (timeout) => this.set({ timeout_s: timeout }, "timeout"), "300"),
      make("div", { className: "row" }, approval, make("label", { htmlFor: "step-approval", textContent: gettext("Ask a person before it starts") })));
  }

  limits() {
    const { step } = this;
    const policy = (/** @type {Record<string, any>} */ values, /** @type {string} */ about) => this.set({ policy: clean({ ...this.step.policy, ...values }) }, about);
    const narrow = make("input", { type: "checkbox", id: "step-narrow", checked: Array.isArray(step.policy?.allowed) });
    narrow.addEventListener("change", () => { policy({ allowed: narrow.checked ? [] : null }, ""); this.again(); });
    const lines = (/** @type {string} */ id, /** @type {string} */ words, /** @type {string} */ name) => {
      const area = make("textarea", { id, rows: 2, value: (step.policy?.[name] ?? []).join("\n"), spellcheck: false });
      area.addEventListener("input", () => { const list = area.value.split("\n").map((one) => one.trim()).filter(Boolean); policy({ [name]: list.length || name === "allowed" ? list : null }, id); });
      return [make("label", { htmlFor: id, textContent: words }), area];
    };
    const text = make("textarea", { id: "step-instructions", rows: 3, value: step.instructions ?? "" });
    text.addEventListener("input", () => this.set({ instructions: text.value }, "instructions"));
    const model = make("input", { id: "step-model", value: step.model ?? "", autocomplete: "off", spellcheck: false, placeholder: gettext("that of the agent") });
    model.addEventListener("input", () => this.set({ model: model.value.trim() }, "model"));
    if (kindOf(step) === "chain") return null;
    return this.fold("limits", gettext("Tools, model and instructions of this step"), make("div", { className: "row" }, narrow, make("label", { htmlFor: "step-narrow", textContent: gettext("Only some of the agent's tools") })), ...(narrow.checked ? lines("step-allowed", gettext("Tools that it may use, one on each line"), "allowed") : []), ...lines("step-blocked", gettext("Tools that it may not use"), "blocked"), ...lines("step-ask", gettext("Tools that ask first"), "ask"),
      ...this.number("step-turns", gettext("Turns at most"), step.max_turns, (turns) => this.set({ max_turns: turns }, "turns"), gettext("those of the agent")), make("label", { htmlFor: "step-model", textContent: gettext("Model") }), model, make("label", { htmlFor: "step-instructions", textContent: gettext("More instructions") }), text);
  }

  /** Options without a field of their own, as JSON: nothing is hidden, and nothing is lost. */
  others() {
    const rest = Object.fromEntries(Object.entries(this.step).filter(([name]) => !KNOWN.has(name)));
    const area = make("textarea", { id: "step-others", className: "code", rows: 5, spellcheck: false, value: Object.keys(rest).length ? JSON.stringify(rest, null, 2) : "" });
    const wrong = make("p", { className: "wrong", role: "alert", hidden: true });
    area.addEventListener("change", () => {
      try {
        const values = area.value.trim() ? JSON.parse(area.value) : {};
        wrong.hidden = true;
        const kept = Object.fromEntries(Object.entries(this.step).filter(([name]) => KNOWN.has(name)));
        this.editor.change(replace(this.editor.draft, this.key, { ...kept, ...values }));
      } catch (error) { wrong.hidden = false; wrong.textContent = gettext("This is not JSON: %(problem)s", { problem: /** @type {Error} */ (error).message }); }
    });
    return this.fold("others", gettext("Other fields"), ...this.number("step-version", gettext("Version of the target (empty: the live one)"), this.step.target_version, (value) => this.set({ target_version: value }, "version"), ""),
      make("label", { htmlFor: "step-others", textContent: gettext("Fields as JSON") }), area, wrong, make("p", { className: "help", textContent: gettext("For example output_schema, covers, context, variables.") }));
  }

  /** What the step did in the last run, and its output as pinned data. */
  last() {
    const { editor, key } = this;
    const pin = editor.pins.get(key);
    const row = editor.lastOf(key);
    if (!row && !pin) return null;
    const json = (/** @type {string} */ words, /** @type {any} */ value) => (value === null || value === undefined ? [] : [make("p", { className: "label small", textContent: words }), make("pre", { className: "json", tabIndex: 0, role: "region", ariaLabel: words, textContent: JSON.stringify(value, null, 2).slice(0, 20_000) })]);
    const done = row && ["succeeded", "partial"].includes(row.status);
    const pinning = pin ? this.pinned(pin) : done ? [make("button", { type: "button", id: "step-pin", textContent: gettext("Pin this output"), onclick: () => { editor.pin(key, { run: row.run }); this.again(); } }), make("p", { className: "help", textContent: gettext("A try then uses this output, and the step does not run.") })] : [];
    return this.fold("last", gettext("Last run"), ...(row ? [make("p", { className: "row small" }, make("span", { className: `pill ${row.status}`, textContent: row.pinned ? gettext("%(status)s, output given", { status: word(row.status) }) : row.status }), make("a", { href: sitePath(`/runs/${row.child ?? row.run}/`), textContent: row.child ? gettext("Open the run of this step") : gettext("Open the run") }))] : []), ...(row?.error ? [make("p", { className: "note error small", textContent: row.error.message ?? row.error.code })] : []), ...json(gettext("Input"), row?.input), ...json(gettext("Output"), row?.output), ...pinning);
  }

  /** @param {Record<string, any>} pin */
  pinned(pin) {
    const { editor, key } = this;
    const value = "value" in pin ? pin.value : editor.lastOf(key)?.output;
    const area = make("textarea", { id: "step-pinned", className: "code", rows: 5, spellcheck: false, value: JSON.stringify(value ?? null, null, 2) });
    area.addEventListener("change", () => editor.pin(key, { ...(pin.run ? { run: pin.run } : {}), value: jsonOr(area.value) }));
    return [make("label", { htmlFor: "step-pinned", textContent: gettext("Pinned output") }), area, make("div", { className: "row" }, make("button", { type: "button", id: "step-pin", textContent: gettext("Unpin"), onclick: () => { editor.pin(key, null); this.again(); } }), make("span", { className: "small soft", textContent: gettext("Tries use it; the published chain does not.") }))];
  }

  // -- controls ---------------------------------------------------------------------------------------------------------

  /** @param {string} name @param {string} title @param {(Node | null)[]} children */
  fold(name, title, ...children) {
    const part = make("details", { className: "fold", open: this.open.has(name) }, make("summary", { textContent: title }), make("div", { className: "form" }, ...children));
    part.addEventListener("toggle", () => { if (part.open) this.open.add(name); else this.open.delete(name); });
    return part;
  }

  /** @param {string} id @param {[string, string][]} options @param {string} value @param {(value: string) => void} changed */
  choice(id, options, value, changed) {
    const select = make("select", { id }, ...options.map(([one, words]) => make("option", { value: one, textContent: words, selected: one === value })));
    select.addEventListener("change", () => changed(select.value));
    return select;
  }

  /** @param {string} id @param {string} words @param {number | null | undefined} value @param {(value: number | null) => void} changed @param {string} usual */
  number(id, words, value, changed, usual) {
    const input = make("input", { id, inputMode: "decimal", value: value ?? "", placeholder: usual, autocomplete: "off" });
    input.addEventListener("input", () => {
      const isWrong = input.value.trim() !== "" && Number.isNaN(Number(input.value));
      input.toggleAttribute("aria-invalid", isWrong);
      if (isWrong) input.setAttribute("aria-invalid", "true");
      else changed(input.value.trim() === "" ? null : Number(input.value));
    });
    return [make("label", { htmlFor: id, textContent: words }), input];
  }

  /** An expression and a button that chooses one. @param {string} id @param {string} value @param {string} where @param {(value: string) => void} changed */
  expression(id, value, where, changed) {
    const input = make("input", { id, className: "code", value, autocomplete: "off", spellcheck: false, placeholder: "JMESPath" });
    input.addEventListener("input", () => changed(input.value.trim()));
    const button = this.chooser(id, where, (path) => { input.value = path; changed(path); input.dispatchEvent(new Event("chosen")); });
    return make("div", { className: "choose" }, input, button);
  }

  /** @param {string} id @param {string} where @param {(path: string) => void} chosen */
  chooser(id, where, chosen) {
    const button = make("button", { type: "button", textContent: gettext("Choose…"), ariaLabel: gettext("Choose a field for %(field)s", { field: id.replace(/^(input|step)-/, "") }) });
    button.addEventListener("click", async () => {
      const all = await readableFields(this.editor, this.step, where);
      const found = await pick({ title: gettext("Which field?"), find: (text) => all.filter((one) => `${one.label} ${one.detail} ${one.group}`.toLowerCase().includes(text.toLowerCase())), empty: gettext("There is nothing to read yet. A chain's input schema and a first try give fields.") });
      if (!found) return;
      if (found.connect && !upstream(this.editor.draft, this.key).has(found.connect)) { this.editor.change(connect(this.editor.draft, found.connect, this.key)); chosen(found.path); this.again(); return; }
      chosen(found.path);
    });
    return button;
  }

  /** A condition as field, comparison and value, with its expression. @param {string} id @param {string} expression @param {string} where @param {(expression: string) => void} changed */
  condition(id, expression, where, changed) {
    const parts = conditionOf(expression);
    const words = make("p", { className: "help", id: `${id}-words` });
    const code = make("input", { id: `${id}-code`, className: "code", value: expression, autocomplete: "off", spellcheck: false, placeholder: gettext("empty: always"), ariaLabel: gettext("The condition as an expression") });
    const tell = () => { words.textContent = code.value.trim() ? gettext("It runs only if %(condition)s.", { condition: conditionInWords(code.value.trim()) }).replace(gettext("It runs only if"), where === "repeat" ? gettext("It is repeated until") : gettext("It runs only if")) : ""; };
    const value = make("input", { id: `${id}-value`, value: parts?.value ?? "", ariaLabel: gettext("Value or field"), placeholder: gettext("a value, or a field such as input.limit") });
    const choose = this.chooser(`${id}-value`, where, (path) => { value.value = path; write(); });
    const valued = make("div", { className: "choose" }, value, choose);
    const op = make("select", { id: `${id}-op`, ariaLabel: gettext("Comparison") }, ...COMPARISONS.map(([one, label]) => make("option", { value: one, textContent: label, selected: one === parts?.op })));
    let left = parts?.left ?? "";
    const write = () => { code.value = expressionOf({ left, op: op.value, value: value.value }); valued.hidden = ["is", "not"].includes(op.value); tell(); changed(code.value); };
    const field = this.expression(id, left, where, (path) => { left = path; write(); });
    field.querySelector("input")?.setAttribute("aria-label", where === "repeat" ? gettext("Repeat until: field") : gettext("Only if: field"));
    op.addEventListener("change", write);
    value.addEventListener("input", write);
    valued.hidden = ["is", "not"].includes(op.value);
    code.addEventListener("input", () => {
      const now = conditionOf(code.value);
      if (now) { left = now.left; /** @type {HTMLInputElement} */ (field.querySelector("input")).value = left; op.value = now.op; value.value = now.value; valued.hidden = ["is", "not"].includes(now.op); }
      tell();
      changed(code.value.trim());
    });
    tell();
    return [make("div", { className: "condition" }, field, op, valued), make("div", { className: "row expression" }, make("span", { className: "small soft", textContent: gettext("Expression") }), code), words];
  }
}

/** @param {Record<string, any>} values */
const clean = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null && value !== undefined));
