// The steps of a chain as a list: what each does in words, how it is doing, and what is wrong with it.
import { make } from "../page.js";
import { gettext, word } from "../texts.js";
import { START, needsOf } from "./draft.js";
import { inWords, targetInWords, tookInWords } from "./words.js";

/** @typedef {import("./editor.js").Editor} Editor */

/** @param {Editor} editor @param {HTMLElement} list */
export function drawOutline(editor, list) {
  const focused = list.contains(document.activeElement) ? document.activeElement?.getAttribute("data-step") : null;
  const needs = needsOf(editor.draft);
  const lines = editor.draft.steps.map((step, index) => makeLine(editor, step, index, needs.get(step.key) ?? []));
  list.replaceChildren(makeStart(editor), ...lines);
  if (focused) /** @type {HTMLElement | null} */ (list.querySelector(`[data-step="${CSS.escape(focused)}"]`))?.focus({ preventScroll: true });
}

/** @param {Editor} editor */
function makeStart(editor) {
  const title = make("b", { textContent: gettext("Start") });
  const fields = make("span", { className: "small soft", textContent: describeInput(editor.inputSchema()) });
  return makeButton(editor, START, make("span", { className: "row between" }, title), fields);
}

/** @param {any} schema of the chain's input */
export function describeInput(schema) {
  const names = Object.keys(schema?.properties ?? {});
  return names.length ? gettext("takes %(names)s", { names: names.join(", ") }) : gettext("takes any input");
}

/** @param {Editor} editor @param {import("./draft.js").Step} step @param {number} index @param {string[]} needs */
function makeLine(editor, step, index, needs) {
  const marks = make("span", { className: "row" });
  if (editor.pins.has(step.key)) marks.append(make("span", { className: "small soft", textContent: `📌 ${gettext("pinned")}` }));
  const state = editor.states.get(step.key);
  if (state) marks.append(make("span", { className: `pill ${state.status}`, textContent: describeState(state) }));
  const head = make("span", { className: "row between" }, make("b", { textContent: `${index + 1}. ${step.key}` }), marks);
  const what = make("span", { className: "small soft", textContent: [targetInWords(step), ...inWords(step, needs)].join(" · ") });
  const problems = editor.problemsOf(step.key).map(({ message }) => make("span", { className: "small wrong", textContent: message }));
  return makeButton(editor, step.key, head, what, ...problems);
}

/** @param {import("./picture.js").State} state */
function describeState(state) {
  const items = state.total ? `${state.done ?? 0}/${state.total}` : "";
  const took = state.ms === undefined ? "" : tookInWords(state.ms);
  return [word(state.status), items, took].filter(Boolean).join(" ");
}

/** @param {Editor} editor @param {string} key @param {Node[]} children */
function makeButton(editor, key, ...children) {
  const button = make("button", { type: "button", className: "line", onclick: () => editor.open(key) }, ...children);
  button.dataset.step = key;
  if (key === editor.selected) button.setAttribute("aria-current", "true");
  return make("li", {}, button);
}
