// A form from a JSON Schema's properties; what has no simple field is written as JSON.
import { make } from "./page.js";
import { findType, typesInWords } from "./schemafields.js";
import { gettext } from "./texts.js";

/** @typedef {Record<string, any>} Schema a JSON Schema */
/** @typedef {"string" | "integer" | "number" | "boolean" | "lines" | "json"} Kind how a value is written */

const SIMPLE = ["string", "integer", "number", "boolean"];

export class SchemaForm {
  /** @param {HTMLElement} element @param {{prefix?: string}} [options] `prefix`: of the ids of its fields, where several forms are on one page */
  constructor(element, { prefix = "argument" } = {}) {
    this.element = element;
    this.prefix = prefix;
    /** @type {Schema | null} */
    this.schema = null;
    this.text = "";
  }

  /** @type {NodeListOf<HTMLInputElement>} fields; some are a select or a text area, which are read alike */
  get fields() { return this.element.querySelectorAll("[data-name]"); }

  /** @param {Schema | null | undefined} schema */
  show(schema) {
    const text = JSON.stringify(schema ?? {});
    if (text === this.text) return;
    const before = /** @type {Record<string, any>} */ (this.schema ? this.readTyped() : {});
    this.text = text;
    this.schema = schema ?? {};
    const properties = Object.entries(this.schema.properties ?? {});
    const required = new Set(this.schema.required ?? []);
    this.element.replaceChildren();
    for (const [name, about] of properties) {
      this.element.append(...makeField(`${this.prefix}-${name}`, name, about, required.has(name), before[name]));
    }
    if (!properties.length) this.element.append(make("p", { className: "soft small", textContent: gettext("This function takes no arguments.") }));
  }

  /** What stands in the fields, for the fields of a changed schema. */
  readTyped() {
    const typed = /** @type {Record<string, any>} */ ({});
    for (const input of this.fields) typed[input.dataset.name ?? ""] = input.type === "checkbox" ? input.checked : input.value;
    return typed;
  }

  /** {name: value}; throws an Error that names the field. */
  read() {
    /** @type {Record<string, any>} */
    const values = {};
    for (const input of this.fields) {
      const { name = "", kind = "", required } = input.dataset;
      if (kind === "boolean") {
        if (input.checked || required) values[name] = input.checked;
        continue;
      }
      const isEmpty = input.value === "";
      if (isEmpty && !required) continue;
      const mayBeEmpty = kind === "string" || kind === "lines";
      if (isEmpty && !mayBeEmpty) throw new Error(gettext("Enter a value for “%(name)s”.", { name }));
      values[name] = kind === "string" ? input.value : parseValue(name, kind, input.value);
    }
    return values;
  }

  /** @param {Record<string, any>} values */
  fill(values) {
    for (const input of this.fields) {
      const value = values[input.dataset.name ?? ""];
      if (value === undefined) continue;
      if (input.type === "checkbox") input.checked = Boolean(value);
      else input.value = writeValue(value, input.dataset.kind ?? "");
    }
  }
}

/** @param {any} value @param {string} kind */
function writeValue(value, kind) {
  const isText = typeof value === "string" && kind === "string";
  if (isText) return value;
  // A text of several lines would become several texts.
  const isLines = kind === "lines" && Array.isArray(value) && value.every((line) => typeof line === "string" && !line.includes("\n"));
  return isLines ? value.join("\n") : JSON.stringify(value);
}

/** @param {string} name @param {string} kind @param {string} text */
function parseValue(name, kind, text) {
  if (kind === "number" || kind === "integer") {
    const number = Number(text);
    if (Number.isNaN(number)) throw new Error(gettext("%(name)s must be a number.", { name }));
    return number;
  }
  const isJson = kind === "json" || text.trim().startsWith("[");
  if (!isJson) return text.split("\n").filter((line) => line.trim());
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(gettext("%(name)s is not JSON.", { name }));
  }
}

/** @param {Schema} about @returns {Kind} */
function kindOf(about) {
  const isChoice = Array.isArray(about.enum) && about.enum.every((value) => typeof value === "string");
  if (isChoice) return "string";
  if (SIMPLE.includes(about.type)) return about.type;
  return findType(about) === "texts" ? "lines" : "json";
}

/** @param {string} id @param {string} name @param {Schema} about @param {boolean} isRequired @param {any} before @returns {Node[]} */
function makeField(id, name, about, isRequired, before) {
  const kind = kindOf(about);
  const usual = about.default === undefined || about.default === null ? "" : writeValue(about.default, kind);
  const input = makeInput(kind, about, isRequired, before ?? usual);
  input.id = id;
  input.dataset.name = name;
  input.dataset.kind = kind;
  if (isRequired) input.dataset.required = "yes";
  const type = describeType(about);
  const words = isRequired ? type : gettext("%(type)s, optional", { type });
  const label = make("label", { htmlFor: id }, name, make("span", { className: "soft small", textContent: ` ${words}` }));
  const help = [about.description ?? "", kind === "lines" ? gettext("One on each line.") : ""].filter(Boolean).join(" ");
  return [label, input, ...(help ? [make("p", { className: "help", textContent: help })] : [])];
}

/** @param {Schema} about */
function describeType(about) {
  const type = findType(about) || (Array.isArray(about.type) ? "" : findType({ type: about.type }));
  if (type) return typesInWords()[type];
  const names = Array.isArray(about.type) ? about.type : [about.type];
  const words = names.map((/** @type {string} */ name) => typesInWords()[findType({ type: name })] ?? gettext("anything"));
  return words.filter((/** @type {string} */ word, /** @type {number} */ at) => words.indexOf(word) === at).join(" / ");
}

/** @param {Kind} kind @param {Schema} about @param {boolean} isRequired @param {any} value */
function makeInput(kind, about, isRequired, value) {
  if (Array.isArray(about.enum) && kind === "string") {
    const select = make("select");
    if (!isRequired) select.append(make("option", { value: "", textContent: "–" }));
    for (const choice of about.enum) select.append(make("option", { value: choice, textContent: choice }));
    if (value) select.value = value;
    return select;
  }
  if (kind === "boolean") return make("input", { type: "checkbox", checked: value === true || value === "true" });
  if (kind === "json" || kind === "lines") return make("textarea", { className: kind === "json" ? "code" : "", rows: 3, value, spellcheck: kind === "lines" });
  const isNumber = kind !== "string";
  return make("input", { type: isNumber ? "number" : "text", step: kind === "integer" ? "1" : "any", value });
}
