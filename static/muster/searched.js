// A choice among many rows in the admin: typing searches on the server. The select stays and holds the value.
import { make } from "./page.js";
import { gettext } from "./texts.js";

/** @typedef {{id: string, text: string}} Row */
// Who types on within this time is not searched for in between.
const PAUSE_MS = 200;
const ARROWS = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 });
const EDGE = 2; // pixels between the list and the field, and between the list and the edge of the window
let lists = 0;

/** A field with a list below it, by the ARIA pattern of a combobox. */
class Searched {
  /** @param {HTMLSelectElement} select */
  constructor(select) {
    lists += 1;
    this.select = select;
    this.list = make("ul", { className: "found", role: "listbox", popover: "manual", id: `found-${lists}` });
    this.input = this.buildInput();
    this.moveLabels();
    select.hidden = true;
    select.required = false; // a hidden field cannot be focused by the browser; the new one is required instead
    select.after(this.input, this.list);
    this.active = -1;
    this.searches = 0;
    this.timer = 0;
    this.listen();
    this.show();
  }

  buildInput() {
    const { select } = this;
    const input = make("input", { type: "text", id: `${select.id}-search`, role: "combobox" });
    input.required = select.required;
    input.autocomplete = "off";
    input.spellcheck = false;
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", this.list.id);
    input.setAttribute("aria-expanded", "false");
    const description = select.getAttribute("aria-describedby");
    if (description) input.setAttribute("aria-describedby", description);
    return input;
  }

  /** The labels of the select are those of the new field. */
  moveLabels() {
    const labels = [...this.select.labels];
    for (const label of labels) label.htmlFor = this.input.id;
    this.list.ariaLabel = labels[0]?.textContent?.replace(":", "").trim() || gettext("Matches");
  }

  listen() {
    const { input, list } = this;
    input.addEventListener("focus", () => input.select());
    input.addEventListener("click", () => this.search(""));
    input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.search(input.value.trim()), PAUSE_MS);
    });
    input.addEventListener("keydown", (event) => this.press(event));
    input.addEventListener("blur", () => this.leave());
    list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
    list.addEventListener("click", (event) => {
      const target = /** @type {Element} */ (event.target);
      this.choose(target.closest("[role=option]"));
    });
    // The list is above all of the page, so it must be moved along; scrolling in the list itself moves nothing.
    const follow = (/** @type {Event} */ event) => {
      if (event.target !== list) this.place();
    };
    addEventListener("scroll", follow, true);
    addEventListener("resize", follow, true);
    // Django's popups add a row to the select, or change its text.
    const observer = new MutationObserver(() => this.show());
    observer.observe(this.select, { childList: true, subtree: true, characterData: true });
  }

  get isOpen() {
    return this.list.matches(":popover-open");
  }

  get options() {
    return /** @type {HTMLElement[]} */ ([...this.list.querySelectorAll("[role=option]")]);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const step = ARROWS[event.key];
    if (step) {
      event.preventDefault();
      if (this.isOpen) this.highlight(this.active + step);
      else this.search("");
    }
    if (!this.isOpen) return;
    if (event.key === "Enter") {
      event.preventDefault();
      this.choose(this.options[this.active]);
    }
    if (event.key === "Escape") {
      event.preventDefault();
      this.close();
      this.show();
    }
  }

  /** Asks Django's own search of the admin, and shows what it finds. @param {string} words */
  async search(words) {
    this.searches += 1;
    const number = this.searches;
    const { "ajax-Url": url = "", appLabel = "", modelName = "", fieldName = "" } = this.select.dataset;
    const row = { app_label: appLabel, model_name: modelName, field_name: fieldName };
    const query = new URLSearchParams({ term: words, ...row });
    const response = await fetch(`${url}?${query}`).catch(() => null);
    const answer = response?.ok ? await response.json() : null;
    const isLate = number !== this.searches || document.activeElement !== this.input;
    if (isLate) return;
    if (!answer) this.draw([], gettext("The search failed. Try again."));
    else if (answer.pagination.more) this.draw(answer.results, gettext("There are more: type a part of the name."));
    else this.draw(answer.results, answer.results.length ? "" : gettext("Nothing matches."));
  }

  /** @param {Row[]} rows @param {string} note the last line of the list; none if it is empty */
  draw(rows, note) {
    const items = rows.map(({ id, text }, index) => {
      const option = make("li", { role: "option", id: `${this.list.id}-${index}`, textContent: text });
      option.dataset.id = id;
      return option;
    });
    if (note) items.push(make("li", { className: "small soft", role: "presentation", textContent: note }));
    this.list.replaceChildren(...items);
    if (!this.isOpen) this.list.showPopover();
    this.input.ariaExpanded = "true";
    this.place();
    this.highlight(0);
  }

  /** Moves the list to the field: above it where there is no room below, never beyond an edge of the window. */
  place() {
    if (!this.isOpen) return;
    const { left, top, bottom, width } = this.input.getBoundingClientRect();
    const { offsetHeight: listHeight, offsetWidth: listWidth } = this.list;
    const below = bottom + EDGE;
    const above = Math.min(top, innerHeight) - listHeight - EDGE;
    const y = below + listHeight <= innerHeight ? below : Math.max(EDGE, above);
    const x = Math.max(EDGE, Math.min(left, innerWidth - listWidth - EDGE));
    Object.assign(this.list.style, { left: `${x}px`, top: `${y}px`, minWidth: `${width}px` });
  }

  /** Marks one option as the one that Enter chooses. @param {number} index */
  highlight(index) {
    const { options } = this;
    this.active = Math.max(0, Math.min(options.length - 1, index));
    options.forEach((option, place) => {
      option.ariaSelected = String(place === this.active);
    });
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
    const exists = [...this.select.options].some((option) => option.value === id);
    if (!exists) this.select.add(new Option(text, id));
    this.select.value = id;
    this.select.dispatchEvent(new Event("change", { bubbles: true }));
    this.show();
  }

  /** An emptied field means no choice, where none is allowed; a text that was not chosen means nothing. */
  leave() {
    clearTimeout(this.timer);
    this.searches += 1; // what is on its way comes too late
    const isEmptied = !this.input.value.trim();
    if (isEmptied && this.select.dataset.allowClear === "true") this.set("", "");
    this.close();
    this.show();
  }

  close() {
    if (this.isOpen) this.list.hidePopover();
    this.input.ariaExpanded = "false";
    this.input.removeAttribute("aria-activedescendant");
  }

  /** Writes the choice of the select into the field. */
  show() {
    const option = this.select.value ? this.select.selectedOptions[0] : null;
    this.input.value = option?.textContent?.trim() ?? "";
  }
}

/** Every such choice in this part of the page. @param {ParentNode} part */
function drawAll(part) {
  const query = "select.admin-autocomplete:not([hidden])";
  for (const select of /** @type {NodeListOf<HTMLSelectElement>} */ (part.querySelectorAll(query))) {
    const isTemplate = select.name.includes("__prefix__"); // in the hidden row that new rows are copied from
    if (!isTemplate) new Searched(select);
  }
}

/** The choices of the page, and of rows that are added to it. */
export function drawSearched() {
  drawAll(document);
  document.addEventListener("formset:added", (event) => drawAll(/** @type {Element} */ (event.target)));
}
