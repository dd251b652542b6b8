// A form from a JSON Schema's properties; what has no simple field is written as JSON.
import { make } from "./page.js";
import { gettext } from "./texts.js";

/** @typedef {Record<string, any>} Schema a JSON Schema */

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
    const before = /** @type {Record<string, any>} */ (this.schema ? this.raw() : {});
    this.text = text;
    this.schema = schema ?? {};
    const properties = Object.entries(this.schema.properties ?? {});
    const required = new Set(this.schema.required ?? []);
    this.element.replaceChildren(...properties.flatMap(([name, about]) => field(`${this.prefix}-${name}`, name, about, required.has(name), before[name])));
    if (!properties.length) this.element.append(make("p", { className: "soft small", textContent: gettext("This function takes no arguments.") }));
  }

  raw() {
    return Object.fromEntries([...this.fields].map((input) => [input.dataset.name, input.type === "checkbox" ? input.checked : input.value]));
  }

  /** {name: value}; throws an Error that names the field. */
  read() {
    /** @type {Record<string, any>} */
    const found = {};
    for (const input of this.fields) {
      const { name = "", kind = "", required } = input.dataset;
      if (kind === "boolean") { if (input.checked || required) found[name] = input.checked; continue; }
      if (input.value === "" && required && kind !== "string") throw new Error(gettext("Enter a value for “%(name)s”.", { name }));
      if (input.value === "") { if (required) found[name] = ""; continue; }
      found[name] = kind === "string" ? input.value : parsed(name, kind, input.value);
    }
    return found;
  }

  /** @param {Record<string, any>} values */
  fill(values) {
    for (const input of this.fields) {
      const value = values[input.dataset.name ?? ""];
      if (value === undefined) continue;
      if (input.type === "checkbox") input.checked = Boolean(value);
      else input.value = typeof value === "string" && input.dataset.kind === "string" ? value : JSON.stringify(value);
    }
  }
}

/** @param {string} name @param {string} kind @param {string} text */
function parsed(name, kind, text) {
  if (kind === "number" || kind === "integer") {
    const number = Number(text);
    if (Number.isNaN(number)) throw new Error(gettext("%(name)s must be a number.", { name }));
    return number;
  }
  try { return JSON.parse(text); } catch { throw new Error(gettext("%(name)s is not JSON.", { name })); }
}

/** @param {string} id @param {string} name @param {Schema} about @param {boolean} required @param {any} before */
function field(id, name, about, required, before) {
  const kind = Array.isArray(about.enum) && about.enum.every((one) => typeof one === "string") ? "string" : ["string", "integer", "number", "boolean"].includes(about.type) ? about.type : "json";
  const value = before ?? (about.default === undefined || about.default === null ? "" : kind === "string" ? String(about.default) : JSON.stringify(about.default));
  let input;
  if (Array.isArray(about.enum) && kind === "string") {
    input = make("select", {}, ...(required ? [] : [make("option", { value: "", textContent: "–" })]), ...about.enum.map((one) => make("option", { value: one, textContent: one })));
    if (value) input.value = value;
  } else if (kind === "boolean") input = make("input", { type: "checkbox", checked: value === true || value === "true" });
  else if (kind === "json") input = make("textarea", { className: "code", rows: 3, value, spellcheck: false });
  else input = make("input", { type: kind === "string" ? "text" : "number", step: kind === "number" ? "any" : "1", value });
  input.id = id;
  Object.assign(input.dataset, { name, kind });
  if (required) input.dataset.required = "yes";
  const type = Array.isArray(about.type) ? about.type.join(" or ") : about.type ?? "any";
  const label = make("label", { htmlFor: id }, name, make("span", { className: "soft small", textContent: ` ${type}${required ? "" : ", optional"}` }));
  return [label, input, about.description ? make("p", { className: "help", textContent: about.description }) : null].filter((one) => one !== null);
}
