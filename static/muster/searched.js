// A choice among many rows in the admin: typing searches on the server. The select stays and holds the value.
import { make } from "./page.js";
import { gettext } from "./texts.js";

/** @typedef {{id: string, text: string}} Row */
const PAUSE_MS = 200;
let made = 0;

class Searched {
  /** @param {HTMLSelectElement} select */
  constructor(select) {
    this.select = select;
    this.list = make("ul", { className: "found", role: "listbox", popover: "manual", id: `found-${(made += 1)}` });
    this.input = make("input", { type: "text", id: `${select.id}-search`, role: "combobox", autocomplete: "off", spellcheck: false, required: select.required });
    for (const [name, value] of Object.entries({ "aria-autocomplete": "list", "aria-controls": this.list.id, "aria-expanded": "false", "aria-describedby": select.getAttribute("aria-describedby") ?? "" })) if (value) this.input.setAttribute(name, value);
    this.takeLabel();
    select.hidden = true;
    select.required = false;
    select.after(this.input, this.list);
    this.active = -1;
    this.asked = 0;
    this.timer = 0;
    this.listen();
    this.show();
  }

  takeLabel() {
    const labels = [...this.select.labels];
    for (const label of labels) label.htmlFor = this.input.id;
    this.list.ariaLabel = labels[0]?.textContent?.replace(":", "").trim() || gettext("Matches");
  }

  listen() {
    const { input, list } = this;
    input.addEventListener("focus", () => input.select());
    input.addEventListener("click", () => this.search(""));
    input.addEventListener("input", () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.search(input.value.trim()), PAUSE_MS); });
    input.addEventListener("keydown", (event) => this.press(event));
    input.addEventListener("blur", () => this.leave());
    list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
    list.addEventListener("click", (event) => this.choose(/** @type {Element} */ (event.target).closest("[role=option]")));
    for (const name of ["scroll", "resize"]) addEventListener(name, (event) => { if (event.target !== list) this.place(); }, true);
    new MutationObserver(() => this.show()).observe(this.select, { childList: true, subtree: true, characterData: true }); // a row was added in a popup
  }

  get isOpen() { return this.list.matches(":popover-open"); }

  /** @param {KeyboardEvent} event */
  press(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) { event.preventDefault(); if (this.isOpen) this.highlight(this.active + by); else this.search(""); }
    if (!this.isOpen) return;
    if (event.key === "Enter") { event.preventDefault(); this.choose(this.options[this.active]); }
    if (event.key === "Escape") { event.preventDefault(); this.close(); this.show(); }
  }

  get options() { return /** @type {HTMLElement[]} */ ([...this.list.querySelectorAll("[role=option]")]); }

  /** @param {string} words */
  async search(words) {
    const mine = (this.asked += 1);
    const { "ajax-Url": url = "", appLabel = "", modelName = "", fieldName = "" } = this.select.dataset;
    const query = new URLSearchParams({ term: words, app_label: appLabel, model_name: modelName, field_name: fieldName });
    const answer = await fetch(`${url}?${query}`).catch(() => null);
    const found = answer?.ok ? await answer.json() : null;
    if (mine !== this.asked || document.activeElement !== this.input) return;
    this.draw(found?.results ?? [], found ? (found.pagination.more ? gettext("There are more: type a part of the name.") : gettext("Nothing matches.")) : gettext("The search failed. Try again."), Boolean(found?.pagination.more));
  }

  /** @param {Row[]} rows @param {string} note @param {boolean} isCut */
  draw(rows, note, isCut) {
    const options = rows.map(({ id, text }, index) => {
      const option = make("li", { role: "option", id: `${this.list.id}-${index}`, textContent: text });
      option.dataset.id = id;
      return option;
    });
    const last = rows.length && !isCut ? [] : [make("li", { className: "small soft", role: "presentation", textContent: note })];
    this.list.replaceChildren(...options, ...last);
    if (!this.isOpen) this.list.showPopover();
    this.input.ariaExpanded = "true";
    this.place();
    this.highlight(0);
  }

  place() {
    if (!this.isOpen) return;
    const { left, top, bottom, width } = this.input.getBoundingClientRect();
    const { offsetHeight } = this.list;
    // Above the field where there is no room below it, and never beyond an edge of the window.
    const fits = bottom + 2 + offsetHeight <= innerHeight;
    const place = fits ? bottom + 2 : Math.max(2, Math.min(top, innerHeight) - offsetHeight - 2);
    const right = Math.max(2, Math.min(left, innerWidth - this.list.offsetWidth - 2));
    Object.assign(this.list.style, { left: `${right}px`, top: `${place}px`, minWidth: `${width}px` });
  }

  /** @param {number} index */
  highlight(index) {
    const { options } = this;
    this.active = Math.max(0, Math.min(options.length - 1, index));
    options.forEach((option, number) => { option.ariaSelected = String(number === this.active); });
    const option = options[this.active];
    if (option) this.input.setAttribute("aria-activedescendant", option.id);
    else this.input.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  }

  /** @param {Element | null | undefined} option */
  choose(option) {
    if (!(option instanceof HTMLElement)) return;
    this.set(option.dataset.id ?? "", option.textContent ?? "");
    this.close();
  }

  /** @param {string} id @param {string} text */
  set(id, text) {
    const known = [...this.select.options].find((one) => one.value === id);
    if (!known) this.select.add(new Option(text, id));
    this.select.value = id;
    this.select.dispatchEvent(new Event("change", { bubbles: true }));
    this.show();
  }

  /** An emptied field means no choice, where none is allowed; a text that was not chosen means nothing. */
  leave() {
    clearTimeout(this.timer);
    this.asked += 1;
    if (!this.input.value.trim() && this.select.dataset.allowClear === "true") this.set("", "");
    this.close();
    this.show();
  }

  close() {
    if (this.isOpen) this.list.hidePopover();
    this.input.ariaExpanded = "false";
    this.input.removeAttribute("aria-activedescendant");
  }

  show() { this.input.value = this.select.value ? this.select.selectedOptions[0]?.textContent?.trim() ?? "" : ""; }
}

/** Every such choice in this part of the page, except in the hidden row that new rows are copied from. @param {ParentNode} part */
function drawAll(part) {
  for (const select of /** @type {NodeListOf<HTMLSelectElement>} */ (part.querySelectorAll("select.admin-autocomplete:not([hidden])"))) if (!select.name.includes("__prefix__")) new Searched(select);
}

export function drawSearched() {
  drawAll(document);
  document.addEventListener("formset:added", (event) => drawAll(/** @type {Element} */ (event.target)));
}
