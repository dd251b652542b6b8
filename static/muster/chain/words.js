// Expressions of a chain in words, and simple conditions as field, comparison and value. Pure.
import { kindOf, targetOf } from "./draft.js";
import { fixed } from "../numbers.js";
import { gettext, ngettext, word } from "../texts.js";

/** @typedef {{left: string, op: string, value: string}} Condition */

/** Comparison → words; the last two take no value. */
export const COMPARISONS = /** @type {[string, string][]} */ ([
  ["==", gettext("is")], ["!=", gettext("is not")], [">", gettext("is greater than")], [">=", gettext("is at least")], ["<", gettext("is less than")], ["<=", gettext("is at most")],
  ["contains", gettext("contains")], ["is", gettext("is there and not empty")], ["not", gettext("is missing or empty")],
]);
const PATH = String.raw`(?:[A-Za-z_]\w*|"(?:[^"\\]|\\.)+")(?:\.(?:[A-Za-z_]\w*|"(?:[^"\\]|\\.)+")|\[-?\d*\])*`;
/** A field that may stand as the value: a root and something within it. Other names are texts, such as letter or item. */
const FIELD = String.raw`(?:input|steps|item|variables|output|previous|run)(?:\.(?:[A-Za-z_]\w*|"(?:[^"\\]|\\.)+")|\[-?\d*\])+`;
const CONSTANT = "'(?:[^'\\\\]|\\\\.)*'|`(?:[^`\\\\]|\\\\.)*`";

/** A value in an expression: 'text', `5`, `true`, or a field such as input.limit. Within quotes it is a text. @param {string} text as a person types it */
export function constant(text) {
  const trimmed = text.trim();
  if (isField(trimmed) || new RegExp(`^'(?:[^'\\\\]|\\\\.)*'$`).test(trimmed)) return trimmed;
  if (/^(-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null)$/.test(trimmed)) return `\`${trimmed}\``;
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/** @param {string} text */
const isField = (text) => new RegExp(`^${FIELD}$`).test(text);

/** @param {string} code of a constant or a field */
function typed(code) {
  if (isField(code)) return code;
  const inside = code.slice(1, -1);
  const text = inside.replace(/\\(['\\])/g, "$1");
  if (code[0] === "'") return constant(text) === code ? text : code;
  try { const value = JSON.parse(inside); return typeof value === "string" ? value : inside; } catch { return inside; }
}

/** @param {string} expression @returns {Condition | null} null: not one that has a form */
export function conditionOf(expression) {
  const text = expression.trim();
  if (!text) return { left: "", op: "is", value: "" };
  const compared = text.match(new RegExp(`^(${PATH}) *(==|!=|>=|<=|>|<) *(${FIELD}|${CONSTANT})$`));
  if (compared) return { left: compared[1], op: compared[2], value: typed(compared[3]) };
  const held = text.match(new RegExp(`^contains\\( *(${PATH}) *, *(${FIELD}|${CONSTANT}) *\\)$`));
  if (held) return { left: held[1], op: "contains", value: typed(held[2]) };
  const plain = text.match(new RegExp(`^(! *)?(${PATH})$`));
  return plain ? { left: plain[2], op: plain[1] ? "not" : "is", value: "" } : null;
}

/** @param {Condition} condition */
export function expressionOf({ left, op, value }) {
  if (!left) return "";
  if (op === "is" || op === "not") return `${op === "not" ? "!" : ""}${left}`;
  return op === "contains" ? `contains(${left}, ${constant(value)})` : `${left} ${op} ${constant(value)}`;
}

/** `steps.read.output.words` → “words of read”. @param {string} path */
export function pathInWords(path) {
  const parts = [...path.matchAll(/"((?:[^"\\]|\\.)+)"|([A-Za-z_]\w*)|\[(-?\d*)\]/g)].map((match) => match[1] ?? match[2] ?? `[${match[3]}]`);
  if (parts[0] === "steps" && parts.length > 1) {
    const what = parts.slice(parts[2] === "output" ? 3 : 2).filter((part) => part !== "[]").join(" ");
    return what ? gettext("%(what)s of “%(step)s”", { what, step: parts[1] }) : gettext("the output of “%(step)s”", { step: parts[1] });
  }
  const rest = parts.slice(1).filter((part) => part !== "[]").join(" ");
  if (parts[0] === "input") return rest ? gettext("%(rest)s of the input", { rest }) : gettext("the input");
  if (parts[0] === "item") return rest ? gettext("%(rest)s of the item", { rest }) : gettext("the item");
  if (parts[0] === "output") return rest ? gettext("%(rest)s of its output", { rest }) : gettext("its output");
  return path;
}

/** @param {string} expression */
export function conditionInWords(expression) {
  const condition = conditionOf(expression);
  if (!condition) return gettext("`%(expression)s` is true", { expression });
  const words = Object.fromEntries(COMPARISONS)[condition.op];
  return [pathInWords(condition.left), words, ["is", "not"].includes(condition.op) ? "" : isField(condition.value) ? pathInWords(condition.value) : condition.value].filter(Boolean).join(" ");
}

/** What a step does besides its target, in words. @param {Record<string, any>} step @param {string[]} needs @returns {string[]} */
export function inWords(step, needs) {
  const retries = (step.retry?.attempts ?? 1) - 1;
  return [
    needs.length ? gettext("after %(steps)s", { steps: needs.join(", ") }) : "",
    step.when ? gettext("only if %(condition)s", { condition: conditionInWords(step.when) }) : "",
    step.for_each ? gettext("for each of %(list)s", { list: pathInWords(step.for_each) }) : "",
    step.repeat_until ? gettext("again until %(condition)s, %(limit)s times at most", { condition: conditionInWords(step.repeat_until.condition), limit: step.repeat_until.limit ?? 5 }) : "",
    step.approval ? gettext("asks a person first") : "",
    retries > 0 ? ngettext("%(number)s more try if it fails", "%(number)s more tries if it fails", retries) : "",
    step.on_error === "continue" ? gettext("goes on if it fails") : step.on_error === "fallback" ? gettext("“%(fallback)s” instead if it fails", { fallback: step.fallback ?? "?" }) : "",
  ].filter(Boolean);
}

/** @param {Record<string, any>} step */
export const targetInWords = (step) => (kindOf(step) === "router" ? gettext("an agent chosen by the router") : `${word(kindOf(step))} ${targetOf(step) || gettext("not chosen yet")}`);

/** @param {number} ms */
export function tookInWords(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${fixed(ms / 1000, 1)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}


// -- text with fields ---------------------------------------------------------------------------------------------------

/** `Hello {{input.name}}` → the expression that writes it. @param {string} text */
export function textExpression(text) {
  const parts = text.split(/\{\{(.*?)\}\}/s).map((part, index) => (index % 2 ? `to_string(${part.trim()})` : part && quoted(part))).filter(Boolean);
  if (parts.length === 0) return "";
  return parts.length === 1 ? parts[0] : `join('', [${parts.join(", ")}])`;
}

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

/** The text with fields that an expression writes; null: it does something else. @param {string} expression */
export function textOf(expression) {
  const text = expression.trim();
  if (!text) return "";
  const piece = new RegExp(`^(?:to_string\\( *(${PATH}) *\\)|('(?:[^'\\\\]|\\\\.)*'))`);
  const joined = text.match(/^join\(''\s*,\s*\[(.*)\]\s*\)$/s);
  let rest = joined ? joined[1].trim() : text;
  let made = "";
  while (rest) {
    const match = rest.match(piece);
    if (!match) return null;
    made += match[1] ? `{{${match[1]}}}` : typed(match[2]);
    rest = rest.slice(match[0].length).trim();
    if (rest && (!joined || rest[0] !== ",")) return null;
    rest = rest.slice(1).trim();
  }
  return made;
}
