// A choice of a field, and a condition of field, comparison and value; each has its expression behind a fold.
import { make } from "../page.js";
import { gettext } from "../texts.js";
import { connect, upstream } from "./draft.js";
import { COMPARISONS, conditionInWords, conditionOf, expressionOf, pathInWords } from "./words.js";

/** @typedef {import("./inspector.js").Inspector} Inspector */
/** @typedef {import("./readable.js").Readable} Readable */
/** @typedef {[value: string, words: string]} Choice */

const FIELD = "field:";

/** The fields as groups of a select. @param {HTMLSelectElement} select @param {Readable[]} readable */
export function addFieldOptions(select, readable) {
  /** @type {Map<string, HTMLOptGroupElement>} */
  const groups = new Map();
  for (const { path, label, group } of readable) {
    let place = groups.get(group);
    if (!place) {
      place = make("optgroup", { label: group });
      groups.set(group, place);
      select.append(place);
    }
    place.append(make("option", { value: `${FIELD}${path}`, textContent: label }));
  }
}

/** Shows a path as chosen, also one that is not offered. @param {HTMLSelectElement} select @param {string} path */
export function selectField(select, path) {
  const value = `${FIELD}${path}`;
  const isOffered = [...select.options].some((option) => option.value === value);
  if (!isOffered) select.append(make("option", { value, textContent: pathInWords(path) }));
  select.value = value;
}

/** The path of a chosen field; "" for another choice. @param {string} value */
export const pathOfChoice = (value) => (value.startsWith(FIELD) ? value.slice(FIELD.length) : "");

/** The step waits for the step whose output was chosen. @param {Inspector} inspector @param {Readable[]} readable @param {string} path @returns {boolean} whether it waits for one more */
export function waitForSource(inspector, readable, path) {
  const { editor, key } = inspector;
  const source = readable.find((field) => field.path === path)?.connect;
  if (!source || upstream(editor.draft, key).has(source)) return false;
  editor.change(connect(editor.draft, source, key));
  return true;
}

/**
 * A select of fields. The first line is for nothing, the last one opens the expression.
 * @param {{id: string, label: string, nothing: string, value: string, readable: Readable[], onChange: (path: string) => void}} options
 */
export function makeFieldChoice({ id, label, nothing, value, readable, onChange }) {
  const select = make("select", { id, ariaLabel: label }, make("option", { value: "", textContent: nothing }));
  addFieldOptions(select, readable);
  if (value) selectField(select, value);
  select.addEventListener("change", () => onChange(pathOfChoice(select.value)));
  return select;
}

/** An input of code behind a fold, which is open where nothing else can show the expression. @param {string} id @param {string} value @param {string} label @param {boolean} isOpen @param {(text: string) => void} onInput */
export function makeExpressionFold(id, value, label, isOpen, onInput) {
  const code = make("input", { id, className: "code", value, autocomplete: "off", spellcheck: false, placeholder: "JMESPath", ariaLabel: label });
  code.addEventListener("input", () => onInput(code.value.trim()));
  const fold = make("details", { className: "fold small", open: isOpen }, make("summary", { textContent: gettext("Expression") }), code);
  return { fold, code };
}

/**
 * A condition as field, comparison and value, with its expression.
 * @param {Inspector} inspector @param {{id: string, expression: string, readable: Readable[], isRepeat: boolean, onChange: (expression: string) => void}} options @returns {Node[]}
 */
export function makeCondition(inspector, { id, expression, readable, isRepeat, onChange }) {
  const known = conditionOf(expression);
  let path = known?.left ?? "";
  const sentence = make("p", { className: "help", id: `${id}-words` });
  const field = makeFieldChoice({
    id,
    label: isRepeat ? gettext("Repeat until: field") : gettext("Only if: field"),
    nothing: isRepeat ? gettext("Choose a field…") : gettext("always"),
    value: path,
    readable,
    onChange: chooseField,
  });
  const comparison = make("select", { id: `${id}-op`, ariaLabel: gettext("Comparison") });
  for (const [value, words] of COMPARISONS) {
    comparison.append(make("option", { value, textContent: words, selected: value === known?.op }));
  }
  const value = make("input", { id: `${id}-value`, value: known?.value ?? "", ariaLabel: gettext("Value or field"), placeholder: gettext("value"), autocomplete: "off" });
  const valueField = makeFieldChoice({ id: `${id}-value-field`, label: gettext("A field as the value"), nothing: gettext("or a field…"), value: "", readable, onChange: chooseValue });
  const valueRow = make("div", { className: "condition-value" }, value, valueField);
  const { fold, code } = makeExpressionFold(`${id}-code`, expression, gettext("The condition as an expression"), known === null, readCode);
  const row = make("div", { className: "condition" }, field, comparison, valueRow);

  function tell() {
    const words = conditionInWords(code.value.trim());
    if (!code.value.trim()) sentence.textContent = "";
    else if (isRepeat) sentence.textContent = gettext("It is repeated until %(condition)s.", { condition: words });
    else sentence.textContent = gettext("It runs only if %(condition)s.", { condition: words });
    comparison.hidden = !path;
    valueRow.hidden = !path || ["is", "not"].includes(comparison.value);
  }

  function write() {
    code.value = expressionOf({ left: path, op: comparison.value, value: value.value });
    tell();
    onChange(code.value);
  }

  /** @param {string} chosen */
  function chooseField(chosen) {
    const waits = waitForSource(inspector, readable, chosen);
    path = chosen;
    write();
    if (waits) inspector.again();
  }

  /** @param {string} chosen */
  function chooseValue(chosen) {
    const waits = waitForSource(inspector, readable, chosen);
    value.value = chosen;
    valueField.value = "";
    write();
    if (waits) inspector.again();
  }

  /** @param {string} text */
  function readCode(text) {
    const now = conditionOf(text);
    if (now) {
      path = now.left;
      if (path) selectField(field, path);
      else field.value = "";
      comparison.value = now.op;
      value.value = now.value;
    }
    tell();
    onChange(text);
  }

  comparison.addEventListener("change", write);
  value.addEventListener("input", write);
  tell();
  return [row, sentence, fold];
}
