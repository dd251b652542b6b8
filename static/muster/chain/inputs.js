// The input of a step: each parameter as an expression, a text with fields, a fixed value, or a field with a default.
import { make } from "../page.js";
import { gettext } from "../texts.js";
import { textExpression, textOf } from "./words.js";

/** @typedef {import("./form.js").StepForm} StepForm */

/** Each parameter with where its value comes from. @param {StepForm} form @param {import("./picker.js").About} about */
export function inputs(form, about) {
  const given = form.step.input ?? {};
  const properties = about.input?.properties ?? {};
  const required = new Set(about.input?.required ?? []);
  const names = [...new Set([...Object.keys(properties), ...Object.keys(given)])];
  const more = make("button", { type: "button", className: "quiet small", textContent: gettext("Add a parameter"), onclick: () => addParameter(form) });
  const lines = names.map((name) => parameter(form, name, properties[name], required.has(name)));
  if (!names.length) lines.push(make("p", { className: "help", textContent: gettext("It takes no input.") }));
  return form.fold("input", gettext("Input"), ...lines, ...(about.input && about.input.additionalProperties === false ? [] : [make("div", {}, more)]));
}

/** @param {StepForm} form */
function addParameter(form) {
  const name = prompt(gettext("Name of the parameter"))?.trim();
  if (!name) return;
  form.set({ input: { ...form.step.input, [name]: { value: "" } } }, "");
  form.again();
}

/** @param {StepForm} form @param {string} name @param {any} schema @param {boolean} required */
function parameter(form, name, schema, required) {
  const given = (form.step.input ?? {})[name];
  const id = `input-${name}`;
  const write = (/** @type {any} */ value) => {
    const input = { ...form.step.input };
    if (value === undefined || value === "") delete input[name];
    else input[name] = value;
    form.set({ input }, id);
  };
  const mode = modeOf(given, schema);
  const place = make("div", { className: "stack tight" });
  const fill = (/** @type {string} */ how) => place.replaceChildren(...source(form, how, id, name, schema, how === mode ? given : undefined, write));
  const modes = /** @type {[string, string][]} */ ([["expression", gettext("from a field")], ["text", gettext("text with fields")], ["value", gettext("fixed value")], ["default", gettext("field, or a default")]]);
  const select = form.choice(`${id}-how`, modes, mode, (how) => { fill(how); document.getElementById(id)?.focus(); });
  select.ariaLabel = gettext("%(name)s: where it comes from", { name });
  const type = [Array.isArray(schema?.type) ? schema.type.join(" or ") : schema?.type ?? "", required ? "" : "optional"].filter(Boolean).join(", ");
  fill(mode);
  return make("div", { className: "parameter" }, make("div", { className: "row between" }, make("label", { htmlFor: id }, name, make("span", { className: "small soft", textContent: ` ${type}` })), select), place, schema?.description ? make("p", { className: "help", textContent: schema.description }) : null);
}

/** @param {StepForm} form @param {string} how @param {string} id @param {string} name @param {any} schema @param {any} source @param {(value: any) => void} write @returns {Node[]} */
function source(form, how, id, name, schema, source, write) {
  if (how === "value") {
    const value = source && typeof source === "object" && "value" in source ? source.value : "";
    const isText = schema?.type === "string" || typeof value === "string";
    const area = make("textarea", { id, rows: 2, value: isText ? value : JSON.stringify(value, null, 2), spellcheck: isText });
    area.addEventListener("input", () => write({ value: schema?.type === "string" ? area.value : jsonOr(area.value) }));
    return [area];
  }
  if (how === "text") {
    const area = make("textarea", { id, rows: 3, value: textOf(typeof source === "string" ? source : "") ?? "", placeholder: gettext("Write a sentence about {{input.title}}.") });
    const code = make("code", { className: "small soft", textContent: typeof source === "string" ? source : "" });
    const update = () => { const made = textExpression(area.value); code.textContent = made; write(made); };
    area.addEventListener("input", update);
    const insert = form.chooser(id, "input", (path) => { area.setRangeText(`{{${path}}}`, area.selectionStart, area.selectionEnd, "end"); update(); area.focus(); });
    insert.textContent = gettext("Insert a field…");
    return [area, make("div", { className: "row between" }, insert, code)];
  }
  if (how === "default") {
    const { path = "", default: missing = null } = source && typeof source === "object" ? source : {};
    let now = { path, default: missing };
    const input = form.expression(id, path, "input", (value) => { now = { ...now, path: value }; write(value ? now : ""); });
    const area = make("input", { id: `${id}-default`, value: JSON.stringify(missing), ariaLabel: gettext("%(name)s: default, as JSON", { name }) });
    area.addEventListener("input", () => { now = { ...now, default: jsonOr(area.value) }; if (now.path) write(now); });
    return [input, make("div", { className: "row" }, make("span", { className: "small soft", textContent: gettext("If it is missing:") }), area)];
  }
  return [form.expression(id, typeof source === "string" ? source : "", "input", write)];
}

/** @param {any} source @param {any} schema */
function modeOf(source, schema) {
  if (source === undefined) return schema?.type === "string" ? "text" : "expression";
  if (typeof source !== "string") return "value" in source ? "value" : "default";
  const text = textOf(source);
  return text !== null && (source.startsWith("join(") || source.startsWith("'") || source.startsWith("to_string(")) ? "text" : "expression";
}

/** JSON where it is JSON, else the text. @param {string} text @returns {any} */
export function jsonOr(text) { try { return JSON.parse(text); } catch { return text; } }
