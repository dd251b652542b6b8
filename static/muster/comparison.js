// Shows what differs between two versions: a line for each changed field, and lines of long texts side by side.
import { isObject, matchLines, nameChanges } from "./changes.js";
import { make } from "./page.js";
import { gettext } from "./texts.js";

/** @typedef {import("./changes.js").Change} Change */
/** @typedef {import("./changes.js").LabelOf} LabelOf */

/** All changes, or a sentence if there is none. @param {Change[]} changes @param {LabelOf} labelOf */
export function showChanges(changes, labelOf) {
  const named = nameChanges(changes, labelOf);
  if (!named.length) return make("p", { className: "soft", textContent: gettext("Nothing differs.") });
  const list = make("dl", { className: "changes" });
  for (const { label, from, to } of named) {
    list.append(make("dt", { textContent: label }), make("dd", {}, ...compareValues(label, from, to)));
  }
  return list;
}

/** @param {string} label @param {any} from @param {any} to @returns {Node[]} */
function compareValues(label, from, to) {
  const [before, after] = [valueInWords(from), valueInWords(to)];
  const isLong = before.includes("\n") || after.includes("\n") || before.length + after.length > 90;
  if (isLong) return [compareLines(label, before, after)];
  const parts = [];
  if (before) parts.push(make("del", { textContent: before }));
  if (before && after) parts.push(document.createTextNode(" → "));
  if (after) parts.push(make("ins", { textContent: after }));
  if (!after) parts.push(document.createTextNode(` → ${gettext("empty")}`));
  return parts;
}

/** @param {any} value */
function valueInWords(value) {
  if (value === null || value === undefined || value === "") return "";
  if (value === true) return gettext("yes");
  if (value === false) return gettext("no");
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value.join("\n");
  if (isObject(value) && !Object.keys(value).length) return "";
  return typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
}

const CONTEXT_LINES = 2;
const LINE_TAGS = /** @type {const} */ ({ same: "span", removed: "del", added: "ins" });

/** Lines that left or came, with a few unchanged ones around them. @param {string} label @param {string} before @param {string} after */
function compareLines(label, before, after) {
  const pairs = matchLines(before.split("\n"), after.split("\n"));
  const changedAt = pairs.map(([kind], index) => (kind === "same" ? -1 : index)).filter((index) => index >= 0);
  const isNear = (/** @type {number} */ index) => changedAt.some((at) => Math.abs(at - index) <= CONTEXT_LINES);
  const lines = /** @type {HTMLElement[]} */ ([]);
  let isGap = false;
  pairs.forEach(([kind, left, right], index) => {
    if (!isNear(index)) {
      if (!isGap) lines.push(make("span", { className: "soft", textContent: "…\n" }));
      isGap = true;
      return;
    }
    isGap = false;
    lines.push(make(LINE_TAGS[kind], { textContent: `${kind === "added" ? right : left}\n` }));
  });
  return make("pre", { className: "json unified", tabIndex: 0, role: "region", ariaLabel: label }, ...lines);
}
