// The steps of a chain as a list: what each does in words, how it is doing, and what is wrong with it.
import { make } from "../page.js";
import { needsOf } from "./draft.js";
import { inWords, targetInWords, tookInWords } from "./words.js";
import { gettext, word } from "../texts.js";

/** @typedef {import("./editor.js").Editor} Editor */

/** @param {Editor} editor @param {HTMLElement} list */
export function drawOutline(editor, list) {
  const focused = list.contains(document.activeElement) ? document.activeElement?.getAttribute("data-step") : null;
  const needs = needsOf(editor.draft);
  list.replaceChildren(...editor.draft.steps.map((step, index) => line(editor, step, index, needs.get(step.key) ?? [])));
  if (focused) /** @type {HTMLElement | null} */ (list.querySelector(`[data-step="${CSS.escape(focused)}"]`))?.focus({ preventScroll: true });
}

/** @param {Editor} editor @param {import("./draft.js").Step} step @param {number} index @param {string[]} needs */
function line(editor, step, index, needs) {
  const state = editor.states.get(step.key);
  const told = state && [word(state.status), state.total ? `${state.done ?? 0}/${state.total}` : "", state.ms === undefined ? "" : tookInWords(state.ms)].filter(Boolean).join(" ");
  const marks = [...(editor.pins.has(step.key) ? [make("span", { className: "small soft", textContent: `📌 ${gettext("pinned")}` })] : []), ...(state ? [make("span", { className: `pill ${state.status}`, textContent: told })] : [])];
  const button = make("button", { type: "button", className: "line", onclick: () => editor.open(step.key) },
    make("span", { className: "row between" }, make("b", { textContent: `${index + 1}. ${step.key}` }), make("span", { className: "row" }, ...marks)),
    make("span", { className: "small soft", textContent: [targetInWords(step), ...inWords(step, needs)].join(" · ") }),
    ...editor.problemsOf(step.key).map(({ message }) => make("span", { className: "small wrong", textContent: message })));
  button.dataset.step = step.key;
  if (step.key === editor.selected) button.setAttribute("aria-current", "true");
  return make("li", {}, button);
}
