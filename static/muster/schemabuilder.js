// A table of fields over the text area of a JSON Schema: name, type, required. The text stays what is saved.
import { make } from "./page.js";
import { readFields, typesInWords, writeFields } from "./schemafields.js";
import { gettext } from "./texts.js";

/** @typedef {import("./schemafields.js").FieldRow} FieldRow */

export class SchemaBuilder {
  /** @param {HTMLElement} place @param {HTMLTextAreaElement} text the schema as JSON @param {{label: string, empty: string, isEditable: boolean}} options */
  constructor(place, text, options) {
    this.place = place;
    this.text = text;
    this.options = options;
    /** @type {FieldRow[]} */
    this.rows = [];
    /** @type {Record<string, any> | null} */
    this.schema = null;
    this.drawnText = /** @type {string | null} */ (null);
    text.addEventListener("input", () => this.read());
  }

  /** Draws the table anew if the text is another one. */
  read() {
    if (this.text.value === this.drawnText) return;
    this.drawnText = this.text.value;
    const note = (/** @type {string} */ words) => this.place.replaceChildren(make("p", { className: "help", textContent: words }));
    try {
      this.schema = this.text.value.trim() ? JSON.parse(this.text.value) : null;
    } catch {
      note(gettext("The schema under “Advanced” is not JSON."));
      return;
    }
    const rows = readFields(this.schema);
    if (!rows) {
      note(gettext("This schema says more than a table can show: it is written under “Advanced”."));
      return;
    }
    this.rows = rows;
    this.draw();
  }

  draw() {
    const add = make("button", { type: "button", className: "small", textContent: gettext("Add a field"), onclick: () => this.add() });
    const list = make("ul", { className: "schema-rows", ariaLabel: this.options.label }, ...this.rows.map((row, index) => this.drawRow(row, index)));
    const parts = /** @type {HTMLElement[]} */ (this.rows.length ? [list] : [make("p", { className: "help", textContent: this.options.empty })]);
    if (this.options.isEditable) parts.push(make("div", {}, add));
    this.place.replaceChildren(...parts);
  }

  /** @param {FieldRow} row @param {number} index */
  drawRow(row, index) {
    const number = index + 1;
    const disabled = !this.options.isEditable;
    const name = make("input", { value: row.name, disabled, autocomplete: "off", spellcheck: false, placeholder: gettext("name"), ariaLabel: gettext("Name of field %(number)s", { number }) });
    name.id = `${this.text.id}-name-${index}`;
    name.addEventListener("input", () => this.change(row, { name: name.value.trim() }));
    const type = make("select", { disabled, ariaLabel: gettext("Type of field %(number)s", { number }) });
    type.id = `${this.text.id}-type-${index}`;
    for (const [value, words] of Object.entries(typesInWords())) {
      type.append(make("option", { value, textContent: words, selected: value === row.type }));
    }
    type.addEventListener("change", () => this.change(row, { type: type.value, rest: {} }));
    const required = make("input", { type: "checkbox", checked: row.isRequired, disabled });
    required.addEventListener("change", () => this.change(row, { isRequired: required.checked }));
    const description = make("input", { value: row.description, disabled, autocomplete: "off", placeholder: gettext("what it is (optional)"), ariaLabel: gettext("Description of field %(number)s", { number }) });
    description.addEventListener("input", () => this.change(row, { description: description.value }));
    const remove = make("button", { type: "button", className: "quiet small", textContent: "×", ariaLabel: gettext("Remove field %(number)s", { number }), onclick: () => this.remove(row) });
    const tick = make("label", { className: "small nowrap" }, required, ` ${gettext("required")}`);
    return make("li", {}, name, type, tick, ...(disabled ? [] : [remove]), description);
  }

  /** @param {FieldRow} row @param {Partial<FieldRow>} values */
  change(row, values) {
    Object.assign(row, values);
    this.write();
  }

  add() {
    this.rows.push({ name: "", type: "text", isRequired: true, description: "", rest: {} });
    this.draw();
    document.getElementById(`${this.text.id}-name-${this.rows.length - 1}`)?.focus();
  }

  /** @param {FieldRow} row */
  remove(row) {
    this.rows = this.rows.filter((one) => one !== row);
    this.write();
    this.draw();
  }

  write() {
    this.schema = writeFields(this.rows, this.schema);
    this.text.value = this.schema ? JSON.stringify(this.schema, null, 2) : "";
    this.drawnText = this.text.value;
    this.text.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
