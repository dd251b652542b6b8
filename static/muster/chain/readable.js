// What the expressions of a step can read: the input, the outputs of steps before it, the item of its loop.
import { gettext } from "../texts.js";
import { kindOf, named, refusal, targetOf, upstream } from "./draft.js";
import { fieldsOf, follow, itemOf, short, typeInWords } from "./fields.js";

/** @typedef {Record<string, any>} Step */
/** @typedef {import("./editor.js").Editor} Editor */
/** @typedef {{path: string, type: string, label: string, group: string, connect: string}} Readable `connect`: the step that has to be waited for first */
/** @typedef {"input" | "when" | "each" | "repeat"} Where the expression stands */

const MAX_OTHER_STEPS = 30;

/** The fields to choose from, those that are nearest first. @param {Editor} editor @param {Step} step @param {Where} where @returns {Promise<Readable[]>} */
export async function listReadable(editor, step, where) {
  if (where === "repeat") return listInRepeat(editor, step);
  const before = upstream(editor.draft, step.key);
  const roots = await loadRoots(editor, before);
  const readable = where === "input" ? listOfLoop(step, roots) : [];
  readable.push(...describeFields("input", roots.input, gettext("Start: the chain's input")));
  // The newest output first: it is what a step most often reads.
  const outputs = Object.entries(roots).filter(([root]) => root !== "input").reverse();
  for (const [root, value] of outputs) {
    readable.push(...describeFields(root, value, gettext("Output of %(step)s", { step: value.key ?? "" })));
  }
  readable.push(...(await listOfOtherSteps(editor, step, before)));
  return readable;
}

/** @param {Editor} editor @param {Step} step */
async function listInRepeat(editor, step) {
  const own = await loadOutput(editor, step);
  const input = { schema: editor.inputSchema(), sample: editor.lastInput };
  return [
    ...describeFields("output", own, gettext("Output of this step")),
    ...describeFields("previous", { schema: own.schema }, gettext("Output of the round before")),
    { path: "round", type: "number", label: gettext("round, 0 at first"), group: gettext("Rounds"), connect: "" },
    ...describeFields("input", input, gettext("Start: the chain's input")),
  ];
}

/** @param {Step} step @param {Record<string, Value>} roots @returns {Readable[]} */
function listOfLoop(step, roots) {
  /** @type {Readable[]} */
  const readable = [];
  if (step.for_each) {
    const group = gettext("Item of the loop");
    readable.push(...describeFields("item", itemOf(follow(step.for_each, roots)), group));
    readable.push({ path: "index", type: "number", label: gettext("index, 0 for the first item"), group, connect: "" });
  }
  if (step.repeat_until) {
    readable.push(...describeFields("previous", {}, gettext("Output of the round before")));
  }
  return readable;
}

/** Steps that this one does not wait for yet, but could. @param {Editor} editor @param {Step} step @param {Set<string>} before @returns {Promise<Readable[]>} */
async function listOfOtherSteps(editor, step, before) {
  const { draft } = editor;
  const others = draft.steps.filter((other) => other.key !== step.key && !before.has(other.key) && !refusal(draft, other.key, step.key));
  const lists = others.slice(0, MAX_OTHER_STEPS).map(async (other) => {
    const output = await loadOutput(editor, other);
    const group = gettext("Output of %(step)s (this step will wait for it)", { step: other.key });
    return describeFields(`steps.${named(other.key)}.output`, output, group, other.key);
  });
  return (await Promise.all(lists)).flat();
}

/** @typedef {{schema?: any, sample?: any, key?: string}} Value */

/** @param {string} root @param {Value} value @param {string} group @param {string} [connect] @returns {Readable[]} */
function describeFields(root, value, group, connect = "") {
  return fieldsOf(root, value.schema, value.sample).map(({ path, type, sample, about }) => {
    const within = path === root ? nameOfRoot(root) : path.slice(root.length).replace(/^\./, "");
    const example = sample === undefined ? about : short(sample, 40);
    const label = [within, typeInWords(type), example].filter(Boolean).join(" · ");
    return { path, type, label, group, connect };
  });
}

/** @param {string} root */
function nameOfRoot(root) {
  if (root === "input") return gettext("the whole input");
  if (root === "item") return gettext("the item");
  return gettext("the whole output");
}

/** @param {Editor} editor @param {Set<string>} keys @returns {Promise<Record<string, Value>>} */
async function loadRoots(editor, keys) {
  const steps = editor.draft.steps.filter((step) => keys.has(step.key));
  const outputs = await Promise.all(steps.map((step) => loadOutput(editor, step)));
  /** @type {Record<string, Value>} */
  const roots = { input: { schema: editor.inputSchema(), sample: editor.lastInput } };
  steps.forEach((step, index) => {
    roots[`steps.${named(step.key)}.output`] = { ...outputs[index], key: step.key };
  });
  return roots;
}

/** @param {Editor} editor @param {Step} step @returns {Promise<Value>} */
async function loadOutput(editor, step) {
  const { output } = await editor.catalog.describe(kindOf(step), targetOf(step));
  const own = step.output_schema ?? output;
  const schema = step.for_each ? { type: "array", items: own ?? {} } : own;
  const pin = editor.pins.get(step.key);
  const isGiven = pin && "value" in pin;
  const sample = isGiven ? pin.value : (editor.lastOf(step.key)?.output ?? undefined);
  return { schema, sample };
}
