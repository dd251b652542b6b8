// The picker of agents in the head of the chat: found by typing, chosen with the keyboard.
import { sitePath } from "./site.js";

const picker = document.getElementById("agent-picker");
const search = /** @type {HTMLInputElement | null} */ (document.getElementById("agent-search"));
const field = /** @type {HTMLInputElement | null} */ (document.getElementById("agent-0"));
const options = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#agent-options [role=option]")]);
/** @type {HTMLElement[]} those that match what is typed, in the order of the page */
let shown = options;
let place = 0;

/** @param {HTMLElement} option 0: its name is what was typed, 1: its name begins so, 2: it is somewhere in its words, 3: nowhere @param {string} words */
function distance(option, words) {
  const names = [option.dataset.name ?? "", option.dataset.label ?? ""].map((name) => name.toLowerCase());
  if (names.includes(words)) return 0;
  if (names.some((name) => name.startsWith(words))) return 1;
  const text = `${names[0]} ${option.textContent?.toLowerCase()}`;
  return words.split(/\s+/).every((word) => text.includes(word)) ? 2 : 3;
}

function draw() {
  const words = (search?.value ?? "").trim().toLowerCase();
  const near = options.map((option) => ({ option, distance: words ? distance(option, words) : 0 }));
  shown = near.filter((one) => one.distance < 3).sort((a, b) => a.distance - b.distance).map((one) => one.option);
  for (const option of options) option.hidden = !shown.includes(option);
  if (words) document.getElementById("agent-options")?.prepend(...shown);
  const none = /** @type {HTMLElement | null} */ (document.querySelector("[data-none]"));
  if (none) none.hidden = shown.length > 0;
  mark(words ? 0 : Math.max(0, shown.findIndex((option) => "chosen" in option.dataset)));
}

/** @param {number} next */
function mark(next) {
  place = next;
  for (const option of options) option.setAttribute("aria-selected", String(option === shown[place]));
  if (shown[place]) search?.setAttribute("aria-activedescendant", shown[place].id);
  else search?.removeAttribute("aria-activedescendant");
  shown[place]?.scrollIntoView({ block: "nearest" });
}

/** In the same conversation the next message goes to this agent; an empty one begins anew, with its examples. @param {string} name @param {HTMLElement} [option] */
function choose(name, option) {
  picker?.hidePopover();
  if (!document.querySelector(".stream > *")) {
    location.assign(sitePath(`/playground/${name ? `?agent=${encodeURIComponent(name)}` : ""}`));
    return;
  }
  if (field) field.value = name;
  for (const one of options) delete one.dataset.chosen;
  if (option) option.dataset.chosen = "";
  put("[data-agent-label]", option?.dataset.label ?? name);
  put("[data-agent-symbol]", option?.dataset.symbol ?? "✦");
  document.getElementById("text")?.focus();
}

/** @param {string} selector @param {string} text */
function put(selector, text) {
  const element = document.querySelector(selector);
  if (element) element.textContent = text;
}

picker?.addEventListener("toggle", (event) => {
  if (/** @type {ToggleEvent} */ (event).newState !== "open" || !search) return;
  search.value = "";
  draw();
  search.focus();
});
picker?.addEventListener("click", (event) => {
  const option = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[role=option]"));
  if (option) choose(option.dataset.name ?? "", option);
});
search?.addEventListener("input", draw);
search?.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && shown.length) mark((place + step + shown.length) % shown.length);
  else if (event.key === "Enter" && shown[place]) choose(shown[place].dataset.name ?? "", shown[place]);
  else if (event.key === "Enter" && search.dataset.mayType !== undefined && search.value.trim()) choose(search.value.trim());
  else return;
  event.preventDefault();
});
