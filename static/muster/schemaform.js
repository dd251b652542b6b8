// A form from a JSON Schema's properties; what has no simple field is written as JSON.
import { make } from "./page.js";
import { gettext } from "./texts.js";

/** @typedef {Record<string, any>} Schema a JSON Schema */

const SIMPLE_TYPES = ["string", "integer", "number", "boolean"];

export class SchemaForm {
  /**
   * @param {HTMLElement} element
   * @param {{prefix?: string}} [options] `prefix`: of the ids of its fields, where several forms are on one page
   */
  constructor(element, { prefix = "argument" } = {}) {
    this.element = element;
    this.prefix = prefix;
    /** @type {Schema | null} */
    this.schema = null;
    this.text = "";
  }

  /** @type {NodeListOf<HTMLInputElement>} fields; some are a select or a text area, which are read alike */
  get fields() {
    return this.element.querySelectorAll("[data-name]");
  }

  /**
   * Draws the fields of a schema; what was typed into fields of the same names stays.
   * @param {Schema | null} [schema]
   */
  show(schema) {
    const text = JSON.stringify(schema ?? {});
    if (text === this.text) return;
    const typed = /** @type {Record<string, any>} */ (this.schema ? this.raw() : {});
    this.text = text;
    this.schema = schema ?? {};
    const required = new Set(this.schema.required ?? []);
    this.element.replaceChildren();
    for (const [name, property] of Object.entries(this.schema.properties ?? {})) {
      const id = `${this.prefix}-${name}`;
      this.element.append(...buildField(id, name, property, required.has(name), typed[name]));
    }
    if (this.element.childElementCount) return;
    const note = gettext("This function takes no arguments.");
    this.element.append(make("p", { className: "soft small", textContent: note }));
  }

  /** What is in the fields, as it was typed. */
  raw() {
    /** @type {Record<string, string | boolean>} */
    const values = {};
    for (const input of this.fields) {
      const { name = "" } = input.dataset;
      values[name] = input.type === "checkbox" ? input.checked : input.value;
    }
    return values;
  }

  /** {name: value}; throws an Error that names the field. */
  read() {
    /** @type {Record<string, any>} */
    const values = {};
    for (const input of this.fields) {
      const { name = "", kind = "", required } = input.dataset;
      const isRequired = required !== undefined;
      if (kind === "boolean") {
        // An empty box of an optional property does not say “no”: the function's default holds.
        if (input.checked || isRequired) values[name] = input.checked;
      } else if (input.value !== "") {
        values[name] = parse(name, kind, input.value);
      } else if (isRequired) {
        if (kind !== "string") throw new Error(gettext("Enter a value for “%(name)s”.", { name }));
        values[name] = "";
      }
    }
    return values;
  }

  /** @param {Record<string, any>} values */
  fill(values) {
    for (const input of this.fields) {
      const { name = "", kind } = input.dataset;
      const value = values[name];
      if (value === undefined) continue;
      const isText = typeof value === "string" && kind === "string";
      if (input.type === "checkbox") input.checked = Boolean(value);
      else input.value = isText ? value : JSON.stringify(value);
    }
  }
}

/** The value that was typed. @param {string} name @param {string} kind @param {string} text */
function parse(name, kind, text) {
  if (kind === "string") return text;
  if (kind === "number" || kind === "integer") {
    const number = Number(text);
    if (Number.isNaN(number)) throw new Error(gettext("%(name)s must be a number.", { name }));
    return number;
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(gettext("%(name)s is not JSON.", { name }));
  }
}

/**
 * A label, a field and a help text.
 * @param {string} id @param {string} name @param {Schema} property @param {boolean} isRequired @param {any} typed
 */
function buildField(id, name, property, isRequired, typed) {
  const kind = chooseKind(property);
  const input = buildInput(kind, property, typed ?? formatDefault(property.default, kind), isRequired);
  input.id = id;
  Object.assign(input.dataset, { name, kind });
  if (isRequired) input.dataset.required = "yes";
  const type = Array.isArray(property.type) ? property.type.join(" or ") : property.type ?? "any";
  const note = make("span", { className: "soft small", textContent: ` ${type}${isRequired ? "" : ", optional"}` });
  /** @type {HTMLElement[]} */
  const parts = [make("label", { htmlFor: id }, name, note), input];
  if (property.description) parts.push(make("p", { className: "help", textContent: property.description }));
  return parts;
}

/** Which kind of field a property gets: one of SIMPLE_TYPES, or “json”. @param {Schema} property @returns {string} */
function chooseKind({ type, enum: choices }) {
  if (Array.isArray(choices) && choices.every((choice) => typeof choice === "string")) return "string";
  return SIMPLE_TYPES.includes(type) ? type : "json";
}

/** @param {any} value @param {string} kind */
function formatDefault(value, kind) {
  if (value === undefined || value === null) return "";
  return kind === "string" ? String(value) : JSON.stringify(value);
}

/** @param {string} kind @param {Schema} property @param {any} value @param {boolean} isRequired */
function buildInput(kind, property, value, isRequired) {
  if (kind === "string" && Array.isArray(property.enum)) return buildSelect(property.enum, value, isRequired);
  if (kind === "boolean") return make("input", { type: "checkbox", checked: value === true || value === "true" });
  if (kind === "json") return make("textarea", { className: "code", rows: 3, value, spellcheck: false });
  const type = kind === "string" ? "text" : "number";
  return make("input", { type, step: kind === "number" ? "any" : "1", value });
}

/** @param {string[]} choices @param {string} value @param {boolean} isRequired */
function buildSelect(choices, value, isRequired) {
  const select = make("select");
  if (!isRequired) select.append(make("option", { value: "", textContent: "–" }));
  for (const choice of choices) select.append(make("option", { value: choice, textContent: choice }));
  if (value) select.value = value;
  return select;
}
