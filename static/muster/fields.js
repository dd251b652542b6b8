// The form fields of a row: <input data-field="model_params.temperature" data-kind="number">, read and filled by their kinds.

import { same } from "./row.js";
import { gettext } from "./texts.js";

/** @typedef {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} Control */
/** @typedef {Record<string, any>} Values */

export class Fields {
  /** @param {ParentNode} root */
  constructor(root) {
    this.controls = /** @type {Control[]} */ ([...root.querySelectorAll("[data-field]")]);
  }

  /**
   * The values of all fields; throws an Error with `details` for what is not JSON or a number.
   * @param {Values} base what the server has: parts of an object that have no field are kept
   * @returns {Values}
   */
  read(base) {
    /** @type {Values} */
    const found = {};
    for (const control of this.controls) {
      const [first, rest] = (control.dataset.field ?? "").split(".");
      const value = read(control);
      if (!rest) found[first] = value;
      else {
        found[first] = found[first] ?? { ...base[first] };
        if (value === null) delete found[first][rest];
        else found[first][rest] = value;
      }
    }
    return found;
  }

  /** @param {Values} row */
  fill(row) {
    for (const control of this.controls) {
      const [first, rest] = (control.dataset.field ?? "").split(".");
      if (control instanceof HTMLInputElement && control.type === "checkbox") { control.checked = row[first] === true; continue; }
      const text = shown(rest ? row[first]?.[rest] : row[first], control.dataset.kind ?? "text");
      if (control instanceof HTMLSelectElement && text && ![...control.options].some((one) => one.value === text)) control.add(new Option(text, text));
      if (control.value !== text) control.value = text;
    }
  }

  /** What the form calls a field of the API, or a value that is chosen in it. @param {string} name @param {any} [value] @returns {string} */
  nameOf = (name, value) => {
    const control = this.controls.find((one) => one.dataset.field?.split(".")[0] === name);
    if (value === undefined) return control?.labels?.[0]?.textContent ?? name;
    const option = control instanceof HTMLSelectElement ? [...control.options].find((one) => one.value === value) : undefined;
    return option?.textContent ?? value;
  };

  clear() {
    for (const control of this.controls) {
      control.removeAttribute("aria-invalid");
      const place = placeOf(control);
      if (place) place.hidden = true;
    }
  }

  /**
   * Each problem at its field; the first of them is shown and gets the focus.
   * @param {{field?: string, message?: string}[]} details
   * @returns {string[]} the messages that belong to no field
   */
  point(details) {
    const rest = [];
    let first = /** @type {Control | null} */ (null);
    for (const { field = "", message = "" } of details) {
      const control = this.controls.find((one) => field === one.dataset.field) ?? this.controls.find((one) => field.startsWith(`${one.dataset.field}.`) || field.startsWith(`${one.dataset.field}/`));
      const place = control && placeOf(control);
      if (!control || !place) { rest.push([field, message].filter(Boolean).join(": ")); continue; }
      const inside = field.slice((control.dataset.field ?? "").length + 1);
      place.textContent = [inside, message].filter(Boolean).join(": ");
      place.hidden = false;
      control.setAttribute("aria-invalid", "true");
      first = first ?? control;
    }
    if (first) reveal(first);
    return rest;
  }
}

/** @param {Control} control */
function placeOf(control) {
  return /** @type {HTMLElement | null} */ (document.getElementById(`${control.id}-wrong`));
}

/** Opens the tab and the fold that hold it. @param {HTMLElement} element */
export function reveal(element) {
  const panel = element.closest("[role=tabpanel]");
  if (panel instanceof HTMLElement && panel.hidden) document.getElementById(panel.getAttribute("aria-labelledby") ?? "")?.click();
  const fold = element.closest("details");
  if (fold) fold.open = true;
  element.focus();
}

/** @param {Control} control */
function read(control) {
  const { field = "", kind = "text" } = control.dataset;
  if (control instanceof HTMLInputElement && control.type === "checkbox") return control.checked;
  const text = control.value;
  if (kind === "lines") return text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (kind === "number") return text.trim() === "" ? null : number(field, text);
  if (kind === "code") return text.trim() === "" ? null : json(field, text);
  if (kind === "json") return text.trim() === "" ? {} : json(field, text);
  if (kind === "nullable") return text === "" ? null : text;
  return text;
}

/** @param {string} field @param {string} text */
function number(field, text) {
  const value = Number(text);
  if (Number.isNaN(value)) throw Object.assign(new Error(gettext("This is not a number.")), { details: [{ field, message: gettext("This is not a number.") }] });
  return value;
}

/** @param {string} field @param {string} text */
function json(field, text) {
  try { return JSON.parse(text); } catch (error) {
    const message = gettext("This is not JSON: %(problem)s", { problem: /** @type {Error} */ (error).message });
    throw Object.assign(new Error(message), { details: [{ field, message }] });
  }
}

/** @param {any} value @param {string} kind */
function shown(value, kind) {
  if (value === null || value === undefined) return "";
  if (kind === "lines") return value.join("\n");
  if (kind === "code" || kind === "json") return same(value, {}) ? "" : JSON.stringify(value, null, 2);
  return String(value);
}
