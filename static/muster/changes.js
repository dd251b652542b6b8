// What differs between two versions, in the words of the form: the label of a field, the name of a step or a tool. Parts without a document.
import { gettext, word } from "./texts.js";

/** @typedef {{path: string, from: any, to: any}} Change as the API's diff has it */
/** @typedef {{label: string, from: any, to: any}} NamedChange */
/** @typedef {(name: string, value?: any) => string} LabelOf the form's label of a field of the API, and of a value that is chosen there; the name itself if there is none */

// The server computes these, so nobody chose them and nobody is asked about them.
const COMPUTED = new Set(["definition_hash", "tool_id", "provider_id", "target_id", "policy", "entry", "is_async", "requires_context"]);
// A version has another name for these than the form.
const NAMES_IN_FORM = /** @type {Record<string, string>} */ ({ timeout_s: "timeout" });
// Lists of things that have a name of their own; each thing is compared with itself, not with its neighbour.
const KEYS_OF_LISTS = /** @type {Record<string, string>} */ ({ grants: "tool", steps: "key" });

/** @returns {Record<string, string>} */
const labelsOfParts = () => ({
  agent: gettext("agent"),
  approval: gettext("Ask a person before it starts"),
  approval_expires_s: gettext("The question expires after (seconds)"),
  context: gettext("What it reads of the conversation"),
  covers: gettext("What its output must cover"),
  deadline_s: gettext("Time limit of a call in seconds"),
  fallback: gettext("Step that runs instead"),
  for_each: gettext("For each item of"),
  input: gettext("Input"),
  instructions: gettext("More instructions"),
  max_parallel: gettext("Items at the same time"),
  max_tokens: gettext("Longest answer"),
  max_turns: gettext("Turns at most"),
  mode: gettext("Calls"),
  model: gettext("Model"),
  needs: gettext("Waits for"),
  offline: gettext("If the device is away"),
  on_error: gettext("If it fails"),
  output_schema: gettext("Form of the output"),
  pinned_version: gettext("Version"),
  policy: gettext("Tools of the step"),
  repeat_until: gettext("Repeat it until"),
  retry: gettext("Tries"),
  source: gettext("Source"),
  target: gettext("What it runs"),
  target_kind: gettext("Kind of step"),
  target_version: gettext("Version"),
  temperature: gettext("Temperature"),
  timeout_s: gettext("Time limit in seconds"),
  tool: gettext("tool"),
  top_p: gettext("Top p"),
  variables: gettext("Variables"),
  when: gettext("Only if"),
});

/** What is chosen for a part of a tool or a step, in words. @returns {Record<string, Record<string, string>>} */
const choicesInWords = () => ({
  mode: { allow: gettext("without asking"), ask: gettext("ask before each call"), deny: gettext("never") },
  on_error: { stop: gettext("The run stops"), continue: gettext("The next steps go on"), fallback: gettext("Another step runs instead") },
});

/** @param {string} part @param {any} value */
const choiceInWords = (part, value) => choicesInWords()[part]?.[value] ?? value;

/** @param {any} value */
export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Each change with a label that people know; what the server computed is left out. @param {Change[]} changes @param {LabelOf} labelOf @returns {NamedChange[]} */
export function nameChanges(changes, labelOf) {
  const named = [];
  for (const change of changes) {
    const [root, ...rest] = change.path.split(".");
    const listKey = KEYS_OF_LISTS[root];
    if (listKey && rest.length === 0) {
      named.push(...compareLists(root, listKey, change.from ?? [], change.to ?? []));
      continue;
    }
    // The input schema of a function is read from its source.
    if (COMPUTED.has(root)) continue;
    const name = NAMES_IN_FORM[root] ?? root;
    const ownLabel = labelOf(name);
    const label = ownLabel === name ? (labelsOfParts()[root] ?? inPlainWords(root)) : ownLabel;
    const parts = rest.map((part) => labelsOfParts()[part] ?? part);
    // A parameter of the model has a field of its own, whose label says enough.
    const fullLabel = root === "model_params" && parts.length ? parts.join(": ") : [label, ...parts].join(": ");
    const words = (/** @type {any} */ value) => (rest.length || typeof value !== "string" ? value : labelOf(name, value));
    named.push({ label: fullLabel, from: words(change.from), to: words(change.to) });
  }
  return named;
}

/** @param {string} name */
const inPlainWords = (name) => name.replaceAll("_", " ");

/** @param {string} root @param {string} key @param {any[]} before @param {any[]} after @returns {NamedChange[]} */
function compareLists(root, key, before, after) {
  const old = new Map(before.map((item) => [item[key], item]));
  const now = new Map(after.map((item) => [item[key], item]));
  const named = [];
  for (const name of new Set([...old.keys(), ...now.keys()])) {
    const title = root === "grants" ? gettext("Tool “%(name)s”", { name }) : gettext("Step “%(name)s”", { name });
    if (!old.has(name)) named.push({ label: title, from: null, to: introduce(root, now.get(name)) });
    else if (!now.has(name)) named.push({ label: title, from: gettext("was part of it"), to: gettext("removed") });
    else named.push(...compareParts(title, old.get(name), now.get(name)));
  }
  return named;
}

/** What a new tool or step is, in a few words. @param {string} root @param {any} item */
function introduce(root, item) {
  if (root === "grants") return gettext("added: %(mode)s", { mode: choiceInWords("mode", item.mode) });
  return gettext("added: %(kind)s %(target)s", { kind: word(item.target_kind ?? ""), target: item.target ?? "" });
}

/** @param {string} title @param {any} before @param {any} after @returns {NamedChange[]} */
function compareParts(title, before, after) {
  const named = [];
  let isComputedChange = false;
  for (const part of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const isSame = JSON.stringify(before[part] ?? null) === JSON.stringify(after[part] ?? null);
    if (isSame) continue;
    if (part === "definition_hash") isComputedChange = true;
    // `policy` of a step is written by its author, unlike the policy of a function.
    if (COMPUTED.has(part) && part !== "policy") continue;
    const label = `${title}: ${labelsOfParts()[part] ?? inPlainWords(part)}`;
    if (isObject(before[part]) && isObject(after[part])) named.push(...compareObjects(label, before[part], after[part]));
    else named.push({ label, from: choiceInWords(part, before[part]), to: choiceInWords(part, after[part]) });
  }
  const changedElsewhere = { label: title, from: gettext("as it was published"), to: gettext("as it is now") };
  if (!named.length && isComputedChange) named.push(changedElsewhere);
  return named;
}

/** Each parameter of an input, each rule of a policy. @param {string} title @param {any} before @param {any} after @returns {NamedChange[]} */
function compareObjects(title, before, after) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changed = names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return changed.map((name) => ({ label: `${title}: ${name}`, from: plainValue(before[name]), to: plainValue(after[name]) }));
}

/** A fixed value of an input as itself. @param {any} value */
function plainValue(value) {
  const isFixed = isObject(value) && Object.keys(value).length === 1 && "value" in value;
  return isFixed ? value.value : value;
}

/** @typedef {[kind: "same" | "removed" | "added", left: string, right: string]} LinePair */

// Beyond this many pairs the square table takes too long; the texts are then shown whole.
const MAX_PAIRS = 1_000_000;

/** Both texts line by line, by the longest common subsequence. @param {string[]} left @param {string[]} right @returns {LinePair[]} */
export function matchLines(left, right) {
  if (left.length * right.length > MAX_PAIRS) {
    const removed = left.map((line) => /** @type {LinePair} */ (["removed", line, ""]));
    return [...removed, ...right.map((line) => /** @type {LinePair} */ (["added", "", line]))];
  }
  const lengths = Array.from({ length: left.length + 1 }, () => new Uint32Array(right.length + 1));
  for (let row = left.length - 1; row >= 0; row -= 1) {
    for (let column = right.length - 1; column >= 0; column -= 1) {
      const isEqual = left[row] === right[column];
      lengths[row][column] = isEqual ? lengths[row + 1][column + 1] + 1 : Math.max(lengths[row + 1][column], lengths[row][column + 1]);
    }
  }
  /** @type {LinePair[]} */
  const pairs = [];
  let [row, column] = [0, 0];
  while (row < left.length || column < right.length) {
    const bothLeft = row < left.length && column < right.length;
    if (bothLeft && left[row] === right[column]) {
      pairs.push(["same", left[row], right[column]]);
      row += 1;
      column += 1;
    } else if (column >= right.length || (row < left.length && lengths[row + 1][column] >= lengths[row][column + 1])) {
      pairs.push(["removed", left[row], ""]);
      row += 1;
    } else {
      pairs.push(["added", "", right[column]]);
      column += 1;
    }
  }
  return pairs;
}
