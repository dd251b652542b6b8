// A dialog in which one thing is searched and picked, by keyboard or mouse.
import { make } from "../page.js";
import { gettext } from "../texts.js";

/** @typedef {{label: string, detail?: string, group?: string, value: any}} Option */

const dialog = make("dialog", { className: "step-picker" });
const title = make("h2", { id: "picker-title" });
const search = make("input", { type: "search", id: "picker-search", autocomplete: "off", spellcheck: false });
const list = make("ul", { id: "picker-list", role: "listbox" });
const status = make("p", { className: "small soft", role: "status" });
const cancel = make("button", { type: "button", textContent: gettext("Cancel"), onclick: () => dialog.close() });
const COMBOBOX = { role: "combobox", "aria-expanded": "true", "aria-controls": "picker-list", "aria-autocomplete": "list", "aria-labelledby": "picker-title" };
for (const [name, value] of Object.entries(COMBOBOX)) search.setAttribute(name, value);
dialog.setAttribute("aria-labelledby", "picker-title");
list.setAttribute("aria-labelledby", "picker-title");
dialog.append(make("div", { className: "stack" }, title, search, list, status, make("div", {}, cancel)));
document.body.append(dialog);

const TYPING_MS = 150;
const KEYS = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 });

/** @type {Option[]} */
let options = [];
/** @type {(text: string) => Promise<Option[]> | Option[]} */
let find = () => [];
let emptyText = "";
let activeIndex = 0;
let lastRequest = 0;
let timer = 0;
// The text that the shown options were found for; null while the dialog waits for its first ones.
let shownText = /** @type {string | null} */ (null);
let isEnterWaiting = false;
let picked = /** @type {any} */ (null);

function drawOptions() {
  const lines = /** @type {HTMLElement[]} */ ([]);
  let lastGroup = "";
  options.forEach((option, index) => {
    const group = option.group ?? "";
    if (group && group !== lastGroup) lines.push(make("li", { role: "presentation", className: "group small", textContent: group }));
    lastGroup = group;
    const line = make("li", { role: "option", id: `option-${index}` });
    line.append(make("b", { textContent: option.label }), make("span", { className: "small soft brief", textContent: option.detail ?? "" }));
    line.addEventListener("click", () => choose(index));
    lines.push(line);
  });
  list.replaceChildren(...lines);
  highlight(0);
}

/** @param {number} index */
function highlight(index) {
  activeIndex = Math.max(0, Math.min(options.length - 1, index));
  for (const line of list.querySelectorAll("[role=option]")) {
    line.setAttribute("aria-selected", String(line.id === `option-${activeIndex}`));
  }
  const active = document.getElementById(`option-${activeIndex}`);
  if (active) search.setAttribute("aria-activedescendant", active.id);
  else search.removeAttribute("aria-activedescendant");
  active?.scrollIntoView({ block: "nearest" });
}

/** @param {number} index */
function choose(index) {
  if (!options[index]) return;
  picked = options[index].value;
  dialog.close();
}

/** What is called exactly so comes first, then what begins so; the rest keeps its order. @param {Option[]} found @param {string} text @returns {Option[]} */
export function sortByMatch(found, text) {
  const typed = text.toLowerCase();
  const rank = (/** @type {Option} */ { label }) => {
    const name = label.toLowerCase();
    if (name === typed) return 0;
    return name.startsWith(typed) ? 1 : 2;
  };
  return typed ? found.toSorted((one, other) => rank(one) - rank(other)) : found;
}

async function lookUp() {
  clearTimeout(timer);
  const request = (lastRequest += 1);
  const text = search.value.trim();
  status.textContent = gettext("Searching…");
  let problem = "";
  let found = /** @type {Option[]} */ ([]);
  try {
    found = await find(text);
  } catch (error) {
    problem = /** @type {Error} */ (error).message;
  }
  // Something else was typed, or the dialog was closed: these options are too late.
  if (request !== lastRequest) return;
  options = sortByMatch(found, text);
  shownText = text;
  const count = options.length ? gettext("%(number)s to choose from", { number: options.length }) : emptyText;
  status.textContent = problem || count;
  drawOptions();
  if (isEnterWaiting) choose(0);
  isEnterWaiting = false;
}

search.addEventListener("input", () => {
  isEnterWaiting = false;
  clearTimeout(timer);
  timer = setTimeout(lookUp, TYPING_MS);
});

search.addEventListener("keydown", (event) => {
  const by = KEYS[event.key];
  if (by) {
    event.preventDefault();
    highlight(activeIndex + by);
  }
  if (event.key !== "Enter") return;
  event.preventDefault();
  if (shownText === search.value.trim()) {
    choose(activeIndex);
    return;
  }
  // The options are those of an earlier text: take the first one of this text when it is found.
  isEnterWaiting = true;
  lookUp();
});

/**
 * @param {{title: string, find: (text: string) => Promise<Option[]> | Option[], empty?: string}} question
 * @returns {Promise<any>} the value of the picked option, or null
 */
export function pick(question) {
  title.textContent = question.title;
  find = question.find;
  emptyText = question.empty ?? gettext("Nothing matches.");
  search.value = "";
  picked = null;
  options = [];
  shownText = null;
  isEnterWaiting = false;
  drawOptions();
  lookUp();
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  dialog.showModal();
  search.focus();
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      lastRequest += 1;
      before?.focus({ preventScroll: true });
      resolve(picked);
    };
    dialog.addEventListener("close", finish, { once: true });
  });
}
