// The input of a step: where the value of each parameter comes from.
import { make } from "../page.js";
import { gettext } from "../texts.js";
import { addFieldOptions, makeExpressionFold, pathOfChoice, selectField, waitForSource } from "./conditions.js";
import { typeInWords, typeOf } from "./fields.js";
import { textExpression, textOf } from "./words.js";

/** @typedef {import("./inspector.js").Inspector} Inspector */
/** @typedef {import("./readable.js").Readable} Readable */
/** @typedef {"text" | "value" | "field" | "default" | "expression"} Way how a parameter gets its value */

/** Each parameter with where its value comes from. @param {Inspector} inspector @param {import("./catalog.js").About} about @param {Readable[]} readable @returns {Node[]} */
export function makeInputs(inspector, about, readable) {
  const given = inspector.step.input ?? {};
  const properties = about.input?.properties ?? {};
  const required = new Set(about.input?.required ?? []);
  const names = [...new Set([...Object.keys(properties), ...Object.keys(given)])];
  const parts = /** @type {Node[]} */ (names.map((name) => new Parameter(inspector, name, properties[name], required.has(name), readable).make()));
  if (!names.length) parts.push(make("p", { className: "help", textContent: gettext("It takes no input.") }));
  const isClosed = about.input?.additionalProperties === false;
  if (!isClosed) parts.push(makeAdd(inspector));
  return parts;
}

/** @param {Inspector} inspector */
function makeAdd(inspector) {
  const name = make("input", { id: "input-new", placeholder: gettext("Another parameter"), ariaLabel: gettext("Name of the parameter"), autocomplete: "off", spellcheck: false });
  const add = () => {
    const typed = name.value.trim();
    if (!typed) return;
    inspector.set({ input: { ...inspector.step.input, [typed]: { value: "" } } }, "");
    inspector.again();
  };
  name.addEventListener("keydown", (event) => {
    if (event.key === "Enter") add();
  });
  const button = make("button", { type: "button", className: "quiet small", textContent: gettext("Add"), onclick: add });
  return make("details", { className: "fold small" }, make("summary", { textContent: gettext("Add a parameter") }), make("div", { className: "choose" }, name, button));
}

class Parameter {
  /** @param {Inspector} inspector @param {string} name @param {any} schema @param {boolean} isRequired @param {Readable[]} readable */
  constructor(inspector, name, schema, isRequired, readable) {
    this.inspector = inspector;
    this.name = name;
    this.schema = schema;
    this.isRequired = isRequired;
    this.readable = readable;
    this.id = `input-${name}`;
    this.type = typeOf(schema, undefined);
    /** @type {Way} */
    this.way = wayOf(this.given, schema);
    this.place = make("div", { className: "stack tight" });
  }

  get given() { return (this.inspector.step.input ?? {})[this.name]; }

  make() {
    const select = make("select", { id: `${this.id}-how`, ariaLabel: gettext("%(name)s: where it comes from", { name: this.name }) });
    select.append(make("option", { value: "text", textContent: gettext("Text, with fields in it") }), make("option", { value: "value", textContent: gettext("Fixed value") }));
    addFieldOptions(select, this.readable);
    select.append(make("option", { value: "default", textContent: gettext("A field, or a default") }), make("option", { value: "expression", textContent: gettext("Expression…") }));
    if (this.way === "field") selectField(select, this.given);
    else select.value = this.way;
    select.addEventListener("change", () => this.choose(select.value));
    const type = this.schema?.type ? typeInWords(this.type) : "";
    const detail = [type, this.isRequired ? "" : gettext("optional")].filter(Boolean).join(", ");
    const label = make("label", { htmlFor: this.way === "field" ? select.id : this.id }, this.name, make("span", { className: "small soft", textContent: ` ${detail}` }));
    const help = this.schema?.description ? make("p", { className: "help brief", textContent: this.schema.description }) : null;
    const isMissing = this.isRequired && this.given === undefined;
    const missing = isMissing ? make("p", { className: "help needed", textContent: gettext("It needs a value.") }) : null;
    this.fill();
    return make("div", { className: "parameter" }, label, select, this.place, missing, help);
  }

  /** @param {any} value undefined or "": the parameter is not given */
  write(value) {
    const input = { ...this.inspector.step.input };
    if (value === undefined || value === "") delete input[this.name];
    else input[this.name] = value;
    this.inspector.set({ input }, this.id);
  }

  /** @param {string} choice a way, or a field */
  choose(choice) {
    const path = pathOfChoice(choice);
    if (!path) {
      this.way = /** @type {Way} */ (choice);
      // What stood there means something else in another way, so the control begins empty.
      if (this.way !== "expression") this.write(undefined);
      this.fill();
      document.getElementById(this.id)?.focus();
      return;
    }
    waitForSource(this.inspector, this.readable, path);
    this.write(expressionFor(this.schema, this.readable, path));
    this.inspector.again();
  }

  fill() {
    const makers = { text: () => this.makeText(), value: () => this.makeValue(), field: () => [], default: () => this.makeDefault(), expression: () => this.makeExpression() };
    this.place.replaceChildren(...makers[this.way]());
  }

  /** @returns {Node[]} */
  makeText() {
    const source = typeof this.given === "string" ? this.given : "";
    const area = make("textarea", { id: this.id, rows: 2, value: textOf(source) ?? "", placeholder: gettext("Write a sentence about {{input.title}}.") });
    const write = () => this.write(textExpression(area.value));
    area.addEventListener("input", write);
    const insert = make("select", { id: `${this.id}-insert`, className: "small", ariaLabel: gettext("%(name)s: insert a field", { name: this.name }) }, make("option", { value: "", textContent: gettext("Insert a field…") }));
    addFieldOptions(insert, this.readable);
    insert.addEventListener("change", () => {
      const path = pathOfChoice(insert.value);
      insert.value = "";
      area.setRangeText(`{{${path}}}`, area.selectionStart, area.selectionEnd, "end");
      const waits = waitForSource(this.inspector, this.readable, path);
      write();
      area.focus();
      if (waits) this.inspector.again();
    });
    return [area, insert];
  }

  /** @returns {Node[]} */
  makeValue() {
    const isGiven = this.given !== null && typeof this.given === "object" && "value" in this.given;
    const value = isGiven ? this.given.value : undefined;
    if (Array.isArray(this.schema?.enum)) return [this.makeOneOf(value)];
    if (this.type === "yes or no") return [this.makeYesOrNo(value)];
    const isText = this.schema?.type === "string" || (value !== undefined && typeof value === "string");
    const isShort = ["number", "text"].includes(this.type) && !String(value ?? "").includes("\n");
    const text = value === undefined || isText ? (value ?? "") : JSON.stringify(value, null, 2);
    const control = make(isShort ? "input" : "textarea", { id: this.id, value: text, spellcheck: isText, autocomplete: "off", placeholder: this.placeholder() });
    if (this.type === "number") control.setAttribute("inputmode", "decimal");
    control.addEventListener("input", () => {
      const typed = this.schema?.type === "string" ? control.value : jsonOr(control.value);
      this.write(control.value === "" ? undefined : { value: typed });
    });
    return [control];
  }

  placeholder() {
    const usual = this.schema?.default;
    return usual === undefined || usual === null ? "" : String(typeof usual === "object" ? JSON.stringify(usual) : usual);
  }

  /** @param {any} value */
  makeOneOf(value) {
    const select = make("select", { id: this.id }, make("option", { value: "", textContent: "–" }));
    for (const one of this.schema.enum) {
      select.append(make("option", { value: JSON.stringify(one), textContent: String(one), selected: one === value }));
    }
    select.addEventListener("change", () => this.write(select.value ? { value: JSON.parse(select.value) } : undefined));
    return select;
  }

  /** @param {any} value */
  makeYesOrNo(value) {
    const select = make("select", { id: this.id });
    const choices = [["", "–"], ["true", gettext("yes")], ["false", gettext("no")]];
    for (const [one, words] of choices) select.append(make("option", { value: one, textContent: words, selected: one === String(value ?? "") }));
    select.addEventListener("change", () => this.write(select.value ? { value: select.value === "true" } : undefined));
    return select;
  }

  /** @returns {Node[]} */
  makeDefault() {
    const isGiven = this.given !== null && typeof this.given === "object" && "path" in this.given;
    let { path, default: missing } = isGiven ? this.given : { path: "", default: null };
    const write = () => this.write(path ? { path, default: missing ?? null } : undefined);
    const field = make("input", { id: this.id, className: "code", value: path, placeholder: "JMESPath", autocomplete: "off", spellcheck: false });
    field.addEventListener("input", () => {
      path = field.value.trim();
      write();
    });
    const otherwise = make("input", { id: `${this.id}-default`, value: missing === null || missing === undefined ? "" : textOrJson(missing), ariaLabel: gettext("%(name)s: the default", { name: this.name }) });
    otherwise.addEventListener("input", () => {
      missing = this.schema?.type === "string" ? otherwise.value : jsonOr(otherwise.value);
      write();
    });
    return [field, make("label", { className: "small soft", htmlFor: otherwise.id, textContent: gettext("If it is missing:") }), otherwise];
  }

  /** @returns {Node[]} */
  makeExpression() {
    const source = typeof this.given === "string" ? this.given : "";
    const { code } = makeExpressionFold(this.id, source, gettext("%(name)s: expression", { name: this.name }), true, (text) => this.write(text));
    return [code];
  }
}

/** A field as the source of a parameter: one that takes a text gets the field written as a text. @param {any} schema @param {Readable[]} readable @param {string} path */
export function expressionFor(schema, readable, path) {
  const type = readable.find((field) => field.path === path)?.type ?? "";
  const isWritten = schema?.type === "string" && !["text", ""].includes(type);
  return isWritten ? textExpression(`{{${path}}}`) : path;
}

/** @param {any} given @param {any} schema @returns {Way} */
export function wayOf(given, schema) {
  const isChosen = Array.isArray(schema?.enum) || (schema?.type && schema.type !== "string");
  if (given === undefined) return isChosen ? "value" : "text";
  if (given === null || typeof given !== "string") return given && "path" in given ? "default" : "value";
  const text = textOf(given);
  const isText = text !== null && /^(join\(|'|to_string\()/.test(given);
  if (isText) return "text";
  return isPath(given) ? "field" : "expression";
}

/** @param {string} expression */
const isPath = (expression) => /^[A-Za-z_]\w*(\.([A-Za-z_]\w*|"[^"]+")|\[\d*\])*$/.test(expression);

/** @param {any} value */
const textOrJson = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** JSON where it is JSON, else the text. @param {string} text @returns {any} */
export function jsonOr(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
