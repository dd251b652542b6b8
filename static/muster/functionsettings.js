// The settings of a function that its draft is checked, tried and saved with.
import { make } from "./page.js";
import { gettext } from "./texts.js";

const LISTS = ["allowed_imports", "allowed_hosts", "secrets"];
const DISPLAYED = ["display_name", "icon"];
const NUMBERS = ["timeout", "memory_limit"];

/** @param {string} text @returns {string[]} */
const splitWords = (text) => [...new Set(text.split(/[\s,]+/).filter(Boolean))];

export class FunctionSettings {
  /** @param {HTMLFormElement} form its fields are named as in the API */
  constructor(form) {
    this.form = form;
    // What has no field here counts too when a draft is tried.
    this.others = JSON.parse(document.getElementById("draft-others")?.textContent ?? "{}");
  }

  /** The settings that this page edits. @returns {Record<string, any>} */
  read() {
    const values = /** @type {Record<string, any>} */ ({ effect: this.field("effect").value });
    for (const name of DISPLAYED) values[name] = this.field(name).value.trim();
    for (const name of LISTS) values[name] = splitWords(this.field(name).value);
    for (const name of NUMBERS) {
      const text = this.field(name).value;
      if (text) values[name] = Number(text);
    }
    return values;
  }

  /** The team that it is shared with, where there is a choice; no part of a draft. @returns {{team?: string | null}} */
  sharing() {
    const field = this.field("team");
    return field ? { team: field.value || null } : {};
  }

  /** All that a draft is checked and tried with. @returns {Record<string, any>} */
  whole() { return { ...this.others, ...this.read() }; }

  /** @param {string} module */
  allow(module) {
    const field = this.field("allowed_imports");
    field.value = splitWords(`${field.value} ${module}`).join(", ");
    const fold = field.closest("details");
    if (fold) fold.open = true;
  }

  /**
   * A button that allows the import which was refused; null for another refusal.
   * @param {{code?: string, message?: string}} refusal @param {() => void} then
   */
  remedy(refusal, then) {
    const module = refusal.code === "import-not-allowed" && refusal.message?.split(" ")[0];
    if (!module || this.field("allowed_imports").disabled) return null;
    const allow = () => {
      this.allow(module);
      then();
    };
    return make("button", { type: "button", className: "quiet", textContent: gettext("Allow %(module)s", { module }), onclick: allow });
  }

  /** @param {string} name @returns {HTMLInputElement} */
  field(name) { return /** @type {HTMLInputElement} */ (this.form.elements.namedItem(name)); }
}
