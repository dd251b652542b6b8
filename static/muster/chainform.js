// The form of one step. It shows the step as words, fields and expressions, and hands each change to the editor.
import { make } from "./page.js";
import { change, connect, disconnect, grant, kindOf, misnamed, named, needsOf, refusal, rename, replace, stepOf, targetOf, upstream, withTarget } from "./chaindraft.js";
import { fieldsOf, follow, itemOf, short } from "./chainfields.js";
import { pick, targets } from "./chainpicker.js";
import { COMPARISONS, conditionInWords, conditionOf, expressionOf, textExpression, textOf } from "./chainwords.js";

/** @typedef {Record<string, any>} Step */
/** @typedef {import("./chaineditor.js").Editor} Editor */
/** @typedef {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} Control */

const KNOWN = new Set(["key", "agent", "tool", "chain", "target_kind", "target", "target_version", "needs", "input", "when", "for_each", "max_parallel", "repeat_until", "on_error", "fallback", "retry", "timeout_s", "approval", "approval_expires_s", "policy", "max_turns", "model", "instructions"]);
const FAILING = /** @type {[string, string][]} */ ([["stop", "The run stops"], ["continue", "The next steps go on"], ["fallback", "Another step runs instead"]]);
const MODES = /** @type {[string, string][]} */ ([["allow", "without asking"], ["ask", "ask before each call"], ["deny", "never"]]);

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
    if (!step) { this.place.replaceChildren(make("p", { className: "soft", textContent: this.editor.draft.steps.length ? "Choose a step in the picture or in the list." : "Add the first step: an agent, a tool or another chain." })); return; }
    const about = await this.editor.catalog.about(kindOf(step), targetOf(step));
    if (this.key !== key || !stepOf(this.editor.draft, key)) return; // another step was chosen meanwhile
    const focused = this.place.contains(document.activeElement) ? document.activeElement?.id : "";
    this.place.replaceChildren(...[this.head(), this.target(about), this.inputs(about), this.timing(), this.failing(), kindOf(step) === "tool" ? null : this.limits(), this.others(), this.last()].filter((part) => part !== null));
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
    return make("div", { className: "form" }, ...problems, make("label", { htmlFor: "step-key", textContent: "Name of the step" }), name, wrong);
  }

  /** @param {import("./chainpicker.js").About} about */
  target(about) {
    const { step } = this;
    const kind = kindOf(step);
    const choose = make("button", { type: "button", id: "step-target", textContent: kind === "router" ? "Chosen by the router" : targetOf(step) || "Choose…", ariaLabel: `Runs ${kind === "router" ? "an agent chosen by the router" : `${kind} ${targetOf(step) || "nothing yet"}`}. Change` });
    choose.addEventListener("click", async () => {
      const found = await pick({ title: "What does the step run?", find: (text) => targets(this.editor.name, text) });
      if (!found) return;
      const draft = replace(this.editor.draft, this.key, withTarget(this.step, found.kind, found.name));
      this.editor.change(found.kind === "tool" && !this.editor.grantOf(found.name) ? grant(draft, { ...found, kind: found.toolKind }) : draft);
      this.again();
    });
    const pages = /** @type {Record<string, string>} */ ({ agent: "agents", chain: "chains" });
    const link = pages[kind] && targetOf(step) ? [make("a", { className: "small", href: `/${pages[kind]}/${encodeURIComponent(targetOf(step))}/`, textContent: `Open the ${kind}` })] : [];
    return make("div", { className: "form" }, make("p", { className: "label", textContent: "Runs" }), make("div", { className: "row" }, choose, make("span", { className: "small soft", textContent: kind }), ...link),
      make("p", { className: "help", textContent: about.missing && targetOf(step) ? `You cannot see the ${kind} “${targetOf(step)}”, or it does not exist.` : about.description }), ...(kind === "tool" && targetOf(step) ? [this.granted(about)] : []));
  }

  /** @param {import("./chainpicker.js").About} about */
  granted(about) {
    const name = targetOf(this.step);
    const own = this.editor.grantOf(name);
    const give = (/** @type {string} */ mode) => { this.editor.change(grant(this.editor.draft, { name, kind: about.kind, effect: about.effect }, mode)); this.again(); };
    if (!own) return make("div", { className: "note warning row" }, make("span", { textContent: "The chain is not allowed to call this tool yet." }), make("button", { type: "button", id: "step-grant", className: "primary", textContent: "Grant it", onclick: () => give("") }));
    const select = this.choice("step-grant", MODES, own.mode, give);
    return make("div", { className: "row" }, make("label", { htmlFor: "step-grant", className: "small", textContent: "The chain may call it" }), select, make("span", { className: "small soft", textContent: about.effect ? `effect: ${about.effect.replaceAll("_", " ")}` : "" }));
  }

  /** @param {import("./chainpicker.js").About} about */
  inputs(about) {
    const given = this.step.input ?? {};
    const properties = about.input?.properties ?? {};
    const required = new Set(about.input?.required ?? []);
    const names = [...new Set([...Object.keys(properties), ...Object.keys(given)])];
    const more = make("button", { type: "button", className: "quiet small", textContent: "Add a parameter", onclick: () => this.addParameter() });
    const lines = names.map((name) => this.parameter(name, properties[name], required.has(name)));
    if (!names.length) lines.push(make("p", { className: "help", textContent: "It takes no input." }));
    return this.fold("input", "Input", ...lines, ...(about.input && about.input.additionalProperties === false ? [] : [make("div", {}, more)]));
  }

  addParameter() {
    const name = prompt("Name of the parameter")?.trim();
    if (!name) return;
    this.set({ input: { ...this.step.input, [name]: { value: "" } } }, "");
    this.again();
  }

  /** @param {string} name @param {any} schema @param {boolean} required */
  parameter(name, schema, required) {
    const source = (this.step.input ?? {})[name];
    const id = `input-${name}`;
    const write = (/** @type {any} */ value) => {
      const input = { ...this.step.input };
      if (value === undefined || value === "") delete input[name];
      else input[name] = value;
      this.set({ input }, id);
    };
    const mode = modeOf(source, schema);
    const place = make("div", { className: "stack tight" });
    const fill = (/** @type {string} */ how) => place.replaceChildren(...this.source(how, id, name, schema, how === mode ? source : undefined, write));
    const modes = /** @type {[string, string][]} */ ([["expression", "from a field"], ["text", "text with fields"], ["value", "fixed value"], ["default", "field, or a default"]]);
    const select = this.choice(`${id}-how`, modes, mode, (how) => { fill(how); document.getElementById(id)?.focus(); });
    select.ariaLabel = `${name}: where it comes from`;
    const type = [Array.isArray(schema?.type) ? schema.type.join(" or ") : schema?.type ?? "", required ? "" : "optional"].filter(Boolean).join(", ");
    fill(mode);
    return make("div", { className: "parameter" }, make("div", { className: "row between" }, make("label", { htmlFor: id }, name, make("span", { className: "small soft", textContent: ` ${type}` })), select), place, schema?.description ? make("p", { className: "help", textContent: schema.description }) : null);
  }

  /** @param {string} how @param {string} id @param {string} name @param {any} schema @param {any} source @param {(value: any) => void} write @returns {Node[]} */
  source(how, id, name, schema, source, write) {
    if (how === "value") {
      const value = source && typeof source === "object" && "value" in source ? source.value : "";
      const isText = schema?.type === "string" || typeof value === "string";
      const area = make("textarea", { id, rows: 2, value: isText ? value : JSON.stringify(value, null, 2), spellcheck: isText });
      area.addEventListener("input", () => write({ value: schema?.type === "string" ? area.value : jsonOr(area.value) }));
      return [area];
    }
    if (how === "text") {
      const area = make("textarea", { id, rows: 3, value: textOf(typeof source === "string" ? source : "") ?? "", placeholder: "Write a sentence about {{input.title}}." });
      const code = make("code", { className: "small soft", textContent: typeof source === "string" ? source : "" });
      const update = () => { const made = textExpression(area.value); code.textContent = made; write(made); };
      area.addEventListener("input", update);
      const insert = this.chooser(id, "input", (path) => { area.setRangeText(`{{${path}}}`, area.selectionStart, area.selectionEnd, "end"); update(); area.focus(); });
      insert.textContent = "Insert a field…";
      return [area, make("div", { className: "row between" }, insert, code)];
    }
    if (how === "default") {
      const { path = "", default: missing = null } = source && typeof source === "object" ? source : {};
      let now = { path, default: missing };
      const input = this.expression(id, path, "input", (value) => { now = { ...now, path: value }; write(value ? now : ""); });
      const area = make("input", { id: `${id}-default`, value: JSON.stringify(missing), ariaLabel: `${name}: default, as JSON` });
      area.addEventListener("input", () => { now = { ...now, default: jsonOr(area.value) }; if (now.path) write(now); });
      return [input, make("div", { className: "row" }, make("span", { className: "small soft", textContent: "If it is missing:" }), area)];
    }
    return [this.expression(id, typeof source === "string" ? source : "", "input", write)];
  }

  timing() {
    const { step, editor } = this;
    const needs = needsOf(editor.draft).get(this.key) ?? [];
    const chips = needs.map((need) => make("li", {}, make("button", { type: "button", className: "small", ariaLabel: `No longer wait for ${need}`, disabled: !(step.needs ?? []).includes(need), onclick: () => { editor.change(disconnect(editor.draft, need, this.key)); this.again(); } }, need, (step.needs ?? []).includes(need) ? " ×" : "")));
    const free = editor.draft.steps.map((one) => one.key).filter((one) => one !== this.key && !needs.includes(one));
    const select = make("select", { id: "step-needs" }, make("option", { value: "", textContent: "Wait for another step…" }), ...free.map((one) => make("option", { value: one, textContent: one })));
    const wrong = make("p", { className: "wrong", role: "alert", hidden: true });
    select.addEventListener("change", () => {
      wrong.textContent = refusal(editor.draft, select.value, this.key);
      wrong.hidden = !wrong.textContent;
      if (wrong.textContent) { select.value = ""; return; }
      editor.change(connect(editor.draft, select.value, this.key));
      this.again();
    });
    return this.fold("when", "When and how often", make("label", { htmlFor: "step-needs", textContent: "Waits for" }), make("ul", { className: "row chips", ariaLabel: "Steps that it waits for" }, ...chips), ...(free.length ? [select, wrong] : []), ...(needs.length ? [] : [make("p", { className: "help", textContent: "It starts with the run." })]),
      make("p", { className: "label", textContent: "Only if" }), ...this.condition("step-when", step.when ?? "", "when", (when) => this.set({ when }, "when")),
      make("label", { htmlFor: "step-each", textContent: "For each item of" }), this.expression("step-each", step.for_each ?? "", "each", (each) => this.each(each)),
      make("p", { className: "help", textContent: "Empty: once. A list or an object: once for each item, which the input then reads as item; the output is the list of results." }),
      ...(step.for_each ? this.number("step-parallel", "Items at the same time", step.max_parallel, (value) => this.set({ max_parallel: value }, "parallel"), "8") : []),
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
    const line = make("div", { className: "row" }, tick, make("label", { htmlFor: "step-repeat", textContent: "Repeat it until a condition holds" }));
    if (!repeat) return [line];
    return [line, ...this.condition("step-until", repeat.condition, "repeat", (condition) => this.set({ repeat_until: { ...this.step.repeat_until, condition } }, "until")), ...this.number("step-limit", "At most this often", repeat.limit, (limit) => this.set({ repeat_until: { ...this.step.repeat_until, limit: limit ?? 5 } }, "limit"), "5")];
  }

  failing() {
    const { step, editor } = this;
    const onError = this.choice("step-failing", FAILING, step.on_error ?? "stop", (value) => { this.set({ on_error: value === "stop" ? null : value, ...(value === "fallback" ? {} : { fallback: null }) }, ""); this.again(); });
    const others = editor.draft.steps.map((one) => one.key).filter((one) => one !== this.key);
    const fallback = this.choice("step-fallback", [["", "Choose…"], ...others.map((one) => /** @type {[string, string]} */ ([one, one]))], step.fallback ?? "", (value) => this.set({ fallback: value }, ""));
    const retry = (/** @type {Record<string, any>} */ values) => this.set({ retry: clean({ ...this.step.retry, ...values }) }, `retry-${Object.keys(values)[0]}`);
    const approval = make("input", { type: "checkbox", id: "step-approval", checked: Boolean(step.approval) });
    approval.addEventListener("change", () => this.set({ approval: approval.checked || null }, ""));
    return this.fold("failing", "If it fails, and approval", make("label", { htmlFor: "step-failing", textContent: "If it fails" }), onError, ...(step.on_error === "fallback" ? [make("label", { htmlFor: "step-fallback", textContent: "Step that runs instead" }), fallback] : []),
      make("div", { className: "grid" }, make("div", { className: "form" }, ...this.number("step-attempts", "Tries in all", step.retry?.attempts, (attempts) => retry({ attempts }), "1")), make("div", { className: "form" }, ...this.number("step-backoff", "Seconds before the next try", step.retry?.backoff_s, (backoff) => retry({ backoff_s: backoff }), "1"))),
      ...this.number("step-timeout", "Time limit in seconds", step.timeout_s, (timeout) => this.set({ timeout_s: timeout }, "timeout"), "300"),
      make("div", { className: "row" }, approval, make("label", { htmlFor: "step-approval", textContent: "Ask a person before it starts" })));
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
    const model = make("input", { id: "step-model", value: step.model ?? "", autocomplete: "off", spellcheck: false, placeholder: "that of the agent" });
    model.addEventListener("input", () => this.set({ model: model.value.trim() }, "model"));
    if (kindOf(step) === "chain") return null;
    return this.fold("limits", "Tools, model and instructions of this step", make("div", { className: "row" }, narrow, make("label", { htmlFor: "step-narrow", textContent: "Only some of the agent's tools" })), ...(narrow.checked ? lines("step-allowed", "Tools that it may use, one on each line", "allowed") : []), ...lines("step-blocked", "Tools that it may not use", "blocked"), ...lines("step-ask", "Tools that ask first", "ask"),
      ...this.number("step-turns", "Turns at most", step.max_turns, (turns) => this.set({ max_turns: turns }, "turns"), "those of the agent"), make("label", { htmlFor: "step-model", textContent: "Model" }), model, make("label", { htmlFor: "step-instructions", textContent: "More instructions" }), text);
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
      } catch (error) { wrong.hidden = false; wrong.textContent = `This is not JSON: ${/** @type {Error} */ (error).message}`; }
    });
    return this.fold("others", "Other fields", ...this.number("step-version", "Version of the target (empty: the live one)", this.step.target_version, (value) => this.set({ target_version: value }, "version"), ""),
      make("label", { htmlFor: "step-others", textContent: "Fields as JSON" }), area, wrong, make("p", { className: "help", textContent: "For example output_schema, covers, context, variables." }));
  }

  /** What the step did in the last run, and its output as pinned data. */
  last() {
    const { editor, key } = this;
    const pin = editor.pins.get(key);
    const row = editor.lastOf(key);
    if (!row && !pin) return null;
    const json = (/** @type {string} */ words, /** @type {any} */ value) => (value === null || value === undefined ? [] : [make("p", { className: "label small", textContent: words }), make("pre", { className: "json", tabIndex: 0, role: "region", ariaLabel: words, textContent: JSON.stringify(value, null, 2).slice(0, 20_000) })]);
    const done = row && ["succeeded", "partial"].includes(row.status);
    const pinning = pin ? this.pinned(pin) : done ? [make("button", { type: "button", id: "step-pin", textContent: "Pin this output", onclick: () => { editor.pin(key, { run: row.run }); this.again(); } }), make("p", { className: "help", textContent: "A try then uses this output, and the step does not run." })] : [];
    return this.fold("last", "Last run", ...(row ? [make("p", { className: "row small" }, make("span", { className: `pill ${row.status}`, textContent: row.pinned ? `${row.status}, output given` : row.status }), make("a", { href: `/runs/${row.child ?? row.run}/`, textContent: row.child ? "Open the run of this step" : "Open the run" }))] : []), ...(row?.error ? [make("p", { className: "note error small", textContent: row.error.message ?? row.error.code })] : []), ...json("Input", row?.input), ...json("Output", row?.output), ...pinning);
  }

  /** @param {Record<string, any>} pin */
  pinned(pin) {
    const { editor, key } = this;
    const value = "value" in pin ? pin.value : editor.lastOf(key)?.output;
    const area = make("textarea", { id: "step-pinned", className: "code", rows: 5, spellcheck: false, value: JSON.stringify(value ?? null, null, 2) });
    area.addEventListener("change", () => editor.pin(key, { ...(pin.run ? { run: pin.run } : {}), value: jsonOr(area.value) }));
    return [make("label", { htmlFor: "step-pinned", textContent: "Pinned output" }), area, make("div", { className: "row" }, make("button", { type: "button", id: "step-pin", textContent: "Unpin", onclick: () => { editor.pin(key, null); this.again(); } }), make("span", { className: "small soft", textContent: "Tries use it; the published chain does not." }))];
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
    const button = make("button", { type: "button", textContent: "Choose…", ariaLabel: `Choose a field for ${id.replace(/^(input|step)-/, "")}` });
    button.addEventListener("click", async () => {
      const all = await this.fields(where);
      const found = await pick({ title: "Which field?", find: (text) => all.filter((one) => `${one.label} ${one.detail} ${one.group}`.toLowerCase().includes(text.toLowerCase())), empty: "There is nothing to read yet. A chain's input schema and a first try give fields." });
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
    const code = make("input", { id: `${id}-code`, className: "code", value: expression, autocomplete: "off", spellcheck: false, placeholder: "empty: always", ariaLabel: "The condition as an expression" });
    const tell = () => { words.textContent = code.value.trim() ? `It runs only if ${conditionInWords(code.value.trim())}.`.replace("It runs only if", where === "repeat" ? "It is repeated until" : "It runs only if") : ""; };
    const value = make("input", { id: `${id}-value`, value: parts?.value ?? "", ariaLabel: "Value" });
    const op = make("select", { id: `${id}-op`, ariaLabel: "Comparison" }, ...COMPARISONS.map(([one, label]) => make("option", { value: one, textContent: label, selected: one === parts?.op })));
    let left = parts?.left ?? "";
    const write = () => { code.value = expressionOf({ left, op: op.value, value: value.value }); value.hidden = ["is", "not"].includes(op.value); tell(); changed(code.value); };
    const field = this.expression(id, left, where, (path) => { left = path; write(); });
    field.querySelector("input")?.setAttribute("aria-label", where === "repeat" ? "Repeat until: field" : "Only if: field");
    op.addEventListener("change", write);
    value.addEventListener("input", write);
    value.hidden = ["is", "not"].includes(op.value);
    code.addEventListener("input", () => {
      const now = conditionOf(code.value);
      if (now) { left = now.left; /** @type {HTMLInputElement} */ (field.querySelector("input")).value = left; op.value = now.op; value.value = now.value; value.hidden = ["is", "not"].includes(now.op); }
      tell();
      changed(code.value.trim());
    });
    tell();
    return [make("div", { className: "condition" }, field, op, value), make("div", { className: "row expression" }, make("span", { className: "small soft", textContent: "Expression" }), code), words];
  }

  // -- what can be read -------------------------------------------------------------------------------------------------

  /** @param {string} where input, when, each or repeat */
  async fields(where) {
    const { editor, step, key } = this;
    const roots = await this.roots(where === "repeat" ? new Set() : upstream(editor.draft, key));
    const option = (/** @type {string} */ group, /** @type {string} */ join = "") => (/** @type {import("./chainfields.js").Field} */ field) => ({ label: field.path, group, detail: [field.type, field.sample === undefined ? field.about : short(field.sample)].filter(Boolean).join(" · "), value: { path: field.path, connect: join } });
    const input = fieldsOf("input", roots.input?.schema, roots.input?.sample).map(option(where === "repeat" ? "Input of the run" : "Input of the chain"));
    if (where === "repeat") {
      const own = await this.output(step);
      return [...fieldsOf("output", own.schema, own.sample).map(option("Output of this step")), ...fieldsOf("previous", own.schema).map(option("Output of the round before")), option("Rounds")({ path: "round", type: "number", sample: undefined, about: "0 in the first round" }), ...input];
    }
    const found = Object.entries(roots).filter(([root]) => root !== "input").flatMap(([root, { schema, sample, key: of }]) => fieldsOf(root, schema, sample).map(option(`Output of ${of}`)));
    const item = where === "input" && step.for_each ? itemOf(follow(step.for_each, roots)) : null;
    const items = item ? [...fieldsOf("item", item.schema, item.sample).map(option("Item of the loop")), option("Item of the loop")({ path: "index", type: "number", sample: undefined, about: "0 for the first item" })] : [];
    const rounds = where === "input" && step.repeat_until ? [option("Rounds")({ path: "previous", type: "", sample: undefined, about: "Output of the round before" })] : [];
    const others = editor.draft.steps.filter((one) => one.key !== key && !upstream(editor.draft, key).has(one.key) && !refusal(editor.draft, one.key, key));
    const later = (await Promise.all(others.slice(0, 30).map(async (one) => { const { schema, sample } = await this.output(one); return fieldsOf(`steps.${named(one.key)}.output`, schema, sample).map(option("Other steps: this one will wait for them", one.key)); }))).flat();
    return [...items, ...rounds, ...input, ...found, ...later];
  }

  /** @param {Set<string>} keys @returns {Promise<Record<string, {schema?: any, sample?: any, key?: string}>>} */
  async roots(keys) {
    const { editor } = this;
    const steps = editor.draft.steps.filter((one) => keys.has(one.key));
    const found = await Promise.all(steps.map(async (one) => /** @type {const} */ ([`steps.${named(one.key)}.output`, { ...(await this.output(one)), key: one.key }])));
    return { input: { schema: editor.inputSchema(), sample: editor.lastInput }, ...Object.fromEntries(found) };
  }

  /** @param {Step} step */
  async output(step) {
    const { output } = await this.editor.catalog.about(kindOf(step), targetOf(step));
    const own = step.output_schema ?? output;
    const pin = this.editor.pins.get(step.key);
    return { schema: step.for_each ? { type: "array", items: own ?? {} } : own, sample: pin && "value" in pin ? pin.value : this.editor.lastOf(step.key)?.output ?? undefined };
  }
}

/** @param {any} source @param {any} schema */
function modeOf(source, schema) {
  if (source === undefined) return schema?.type === "string" ? "text" : "expression";
  if (typeof source !== "string") return "value" in source ? "value" : "default";
  const text = textOf(source);
  return text !== null && (source.startsWith("join(") || source.startsWith("'") || source.startsWith("to_string(")) ? "text" : "expression";
}

/** @param {string} text @returns {any} */
function jsonOr(text) { try { return JSON.parse(text); } catch { return text; } }

/** @param {Record<string, any>} values */
const clean = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null && value !== undefined));

