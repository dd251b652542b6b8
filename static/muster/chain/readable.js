// What the expressions of a step can read: the input, the outputs of steps before it, the item of its loop.
import { gettext } from "../texts.js";
import { kindOf, named, refusal, targetOf, upstream } from "./draft.js";
import { fieldsOf, follow, itemOf, short, typeInWords } from "./fields.js";

/** @typedef {Record<string, any>} Step */
/** @typedef {import("./editor.js").Editor} Editor */

/** Fields to choose from. @param {Editor} editor @param {Step} step @param {string} where input, when, each or repeat */
export async function readableFields(editor, step, where) {
  const { key } = step;
  const roots = await rootsOf(editor, where === "repeat" ? new Set() : upstream(editor.draft, key));
  const option = (/** @type {string} */ group, /** @type {string} */ join = "") => (/** @type {import("./fields.js").Field} */ field) => ({ label: field.path, group, detail: [typeInWords(field.type), field.sample === undefined ? field.about : short(field.sample)].filter(Boolean).join(" · "), value: { path: field.path, connect: join } });
  const input = fieldsOf("input", roots.input?.schema, roots.input?.sample).map(option(where === "repeat" ? gettext("Input of the run") : gettext("Input of the chain")));
  if (where === "repeat") {
    const own = await outputOf(editor, step);
    return [...fieldsOf("output", own.schema, own.sample).map(option(gettext("Output of this step"))), ...fieldsOf("previous", own.schema).map(option(gettext("Output of the round before"))), option(gettext("Rounds"))({ path: "round", type: "number", sample: undefined, about: gettext("0 in the first round") }), ...input];
  }
  const found = Object.entries(roots).filter(([root]) => root !== "input").flatMap(([root, { schema, sample, key: of }]) => fieldsOf(root, schema, sample).map(option(gettext("Output of %(of)s", { of: of ?? "" }))));
  const item = where === "input" && step.for_each ? itemOf(follow(step.for_each, roots)) : null;
  const items = item ? [...fieldsOf("item", item.schema, item.sample).map(option(gettext("Item of the loop"))), option(gettext("Item of the loop"))({ path: "index", type: "number", sample: undefined, about: gettext("0 for the first item") })] : [];
  const rounds = where === "input" && step.repeat_until ? [option(gettext("Rounds"))({ path: "previous", type: "", sample: undefined, about: gettext("Output of the round before") })] : [];
  const others = editor.draft.steps.filter((one) => one.key !== key && !upstream(editor.draft, key).has(one.key) && !refusal(editor.draft, one.key, key));
  const later = (await Promise.all(others.slice(0, 30).map(async (one) => { const { schema, sample } = await outputOf(editor, one); return fieldsOf(`steps.${named(one.key)}.output`, schema, sample).map(option(gettext("Other steps: this one will wait for them"), one.key)); }))).flat();
  return [...items, ...rounds, ...input, ...found, ...later];
}

/** @param {Editor} editor @param {Set<string>} keys @returns {Promise<Record<string, {schema?: any, sample?: any, key?: string}>>} */
async function rootsOf(editor, keys) {
  const steps = editor.draft.steps.filter((one) => keys.has(one.key));
  const found = await Promise.all(steps.map(async (one) => /** @type {const} */ ([`steps.${named(one.key)}.output`, { ...(await outputOf(editor, one)), key: one.key }])));
  return { input: { schema: editor.inputSchema(), sample: editor.lastInput }, ...Object.fromEntries(found) };
}

/** @param {Editor} editor @param {Step} step */
async function outputOf(editor, step) {
  const { output } = await editor.catalog.about(kindOf(step), targetOf(step));
  const own = step.output_schema ?? output;
  const pin = editor.pins.get(step.key);
  return { schema: step.for_each ? { type: "array", items: own ?? {} } : own, sample: pin && "value" in pin ? pin.value : editor.lastOf(step.key)?.output ?? undefined };
}
