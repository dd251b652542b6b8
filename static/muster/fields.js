// The form fields of a row: <input data-field="model_params.temperature" data-kind="number">, read and filled by their
// kinds.

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
    const values = {};
    for (const control of this.controls) {
      const [name, part] = splitField(control);
      const value = readControl(control);
      if (!part) {
        values[name] = value;
        continue;
      }
      values[name] ??= { ...base[name] };
      if (value === null) delete values[name][part];
      else values[name][part] = value;
    }
    return values;
  }

  /** @param {Values} row */
  fill(row) {
    for (const control of this.controls) {
      const [name, part] = splitField(control);
      if (isCheckbox(control)) {
        control.checked = row[name] === true;
        continue;
      }
      const value = part ? row[name]?.[part] : row[name];
      fillControl(control, formatValue(value, control.dataset.kind ?? "text"));
    }
  }

  /**
   * What the form calls a field of the API, or a value that is chosen in it.
   * @param {string} name @param {any} [value] @returns {string}
   */
  nameOf = (name, value) => {
    const control = this.controls.find((one) => splitField(one)[0] === name);
    if (value === undefined) return control?.labels?.[0]?.textContent ?? name;
    const options = control instanceof HTMLSelectElement ? [...control.options] : [];
    return options.find((option) => option.value === value)?.textContent ?? value;
  };

  /** Takes the problems away that `point` has shown. */
  clear() {
    for (const control of this.controls) {
      control.removeAttribute("aria-invalid");
      const note = findNote(control);
      if (note) note.hidden = true;
    }
  }

  /**
   * Each problem at its field; the first of them is shown and gets the focus.
   * @param {{field?: string, message?: string}[]} details
   * @returns {string[]} the messages that belong to no field
   */
  point(details) {
    const others = [];
    let first = /** @type {Control | null} */ (null);
    for (const { field = "", message = "" } of details) {
      const control = this.findControl(field);
      const note = control && findNote(control);
      if (!control || !note) {
        others.push(joinWords(field, message));
        continue;
      }
      const place = field.slice((control.dataset.field ?? "").length + 1); // in the value of the field
      note.textContent = joinWords(place, message);
      note.hidden = false;
      control.setAttribute("aria-invalid", "true");
      first ??= control;
    }
    if (first) reveal(first);
    return others;
  }

  /** The control of a field, or of the value that the field is in. @param {string} field such as model_params/top_p */
  findControl(field) {
    const exact = this.controls.find((one) => field === one.dataset.field);
    if (exact) return exact;
    return this.controls.find((control) => {
      const name = control.dataset.field;
      return field.startsWith(`${name}.`) || field.startsWith(`${name}/`);
    });
  }
}

/** @param {string} place @param {string} message */
function joinWords(place, message) {
  return [place, message].filter(Boolean).join(": ");
}

/** The column of the row, and the part of its value where the field is only for that. @param {Control} control */
function splitField(control) {
  return (control.dataset.field ?? "").split(".");
}

/** @param {Control} control @returns {control is HTMLInputElement} */
function isCheckbox(control) {
  return control instanceof HTMLInputElement && control.type === "checkbox";
}

/** Where the problem of a field is shown. @param {Control} control */
function findNote(control) {
  return /** @type {HTMLElement | null} */ (document.getElementById(`${control.id}-wrong`));
}

/** Gives it the focus, and opens the tab and the fold that hold it. @param {HTMLElement} element */
export function reveal(element) {
  const panel = element.closest("[role=tabpanel]");
  if (panel instanceof HTMLElement && panel.hidden) {
    const tab = document.getElementById(panel.getAttribute("aria-labelledby") ?? "");
    tab?.click();
  }
  const fold = element.closest("details");
  if (fold) fold.open = true;
  element.focus();
}

/** @param {Control} control @param {string} text */
function fillControl(control, text) {
  if (control instanceof HTMLSelectElement) addMissingOption(control, text);
  if (control.value !== text) control.value = text; // a control that is set anew loses the place of its cursor
}

/**
 * The row may have a value that is no choice any more: it stays until another is chosen.
 * @param {HTMLSelectElement} select @param {string} value
 */
function addMissingOption(select, value) {
  const exists = [...select.options].some((option) => option.value === value);
  if (value && !exists) select.add(new Option(value, value));
}

/** @param {Control} control */
function readControl(control) {
  if (isCheckbox(control)) return control.checked;
  const { field = "", kind = "text" } = control.dataset;
  const text = control.value;
  const isEmpty = text.trim() === "";
  switch (kind) {
    case "lines":
      return text.split("\n").map((line) => line.trim()).filter(Boolean);
    case "number":
      return isEmpty ? null : parseNumber(field, text);
    case "code":
      return isEmpty ? null : parseJson(field, text);
    case "json":
      return isEmpty ? {} : parseJson(field, text);
    case "nullable":
      return text === "" ? null : text;
    default:
      return text;
  }
}

/** @param {string} field @param {string} text */
function parseNumber(field, text) {
  const value = Number(text);
  if (Number.isNaN(value)) throw buildProblem(field, gettext("This is not a number."));
  return value;
}

/** @param {string} field @param {string} text */
function parseJson(field, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw buildProblem(field, gettext("This is not JSON: %(problem)s", { problem: error.message }));
  }
}

/** An error of the same form as the API's, so that `point` shows it. @param {string} field @param {string} message */
function buildProblem(field, message) {
  return Object.assign(new Error(message), { details: [{ field, message }] });
}

/** The text of a value in its field. @param {any} value @param {string} kind */
function formatValue(value, kind) {
  if (value === null || value === undefined) return "";
  if (kind === "lines") return value.join("\n");
  if (kind !== "code" && kind !== "json") return String(value);
  return same(value, {}) ? "" : JSON.stringify(value, null, 2);
}
