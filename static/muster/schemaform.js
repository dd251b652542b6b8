// A form from a JSON Schema's properties; what has no simple field is written as JSON.
import { make } from "./page.js";

export class SchemaForm {
  // `prefix`: of the ids of its fields, where several forms are on one page.
  constructor(element, { prefix = "argument" } = {}) { this.element = element; this.prefix = prefix; this.schema = null; }

  show(schema) {
    const text = JSON.stringify(schema ?? {});
    if (text === this.text) return;
    const before = this.schema ? this.raw() : {};
    this.text = text;
    this.schema = schema ?? {};
    const properties = Object.entries(this.schema.properties ?? {});
    const required = new Set(this.schema.required ?? []);
    this.element.replaceChildren(...properties.flatMap(([name, about]) => field(`${this.prefix}-${name}`, name, about, required.has(name), before[name])));
    if (!properties.length) this.element.append(make("p", { className: "soft small", textContent: "This function takes no arguments." }));
  }

  raw() {
    return Object.fromEntries([...this.element.querySelectorAll("[data-name]")].map((input) => [input.dataset.name, input.type === "checkbox" ? input.checked : input.value]));
  }

  // {name: value}; throws an Error that names the field.
  read() {
    const found = {};
    for (const input of this.element.querySelectorAll("[data-name]")) {
      const { name, kind, required } = input.dataset;
      if (kind === "boolean") { if (input.checked || required) found[name] = input.checked; continue; }
      if (input.value === "") { if (required && kind === "string") found[name] = ""; continue; }
      found[name] = kind === "string" ? input.value : parsed(name, kind, input.value);
    }
    return found;
  }

  fill(values) {
    for (const input of this.element.querySelectorAll("[data-name]")) {
      const value = values[input.dataset.name];
      if (value === undefined) continue;
      if (input.type === "checkbox") input.checked = Boolean(value);
      else input.value = typeof value === "string" && input.dataset.kind === "string" ? value : JSON.stringify(value);
    }
  }
}

function parsed(name, kind, text) {
  if (kind === "number" || kind === "integer") {
    const number = Number(text);
    if (Number.isNaN(number)) throw new Error(`${name} must be a number.`);
    return number;
  }
  try { return JSON.parse(text); } catch { throw new Error(`${name} is not JSON.`); }
}

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
  return [label, input, about.description ? make("p", { className: "help", textContent: about.description }) : null].filter(Boolean);
}
