// What an expression can read: fields of JSON Schemas, with samples of an earlier run. Pure.
import { named } from "./draft.js";
import { gettext, ngettext } from "../texts.js";

/** @typedef {{path: string, type: string, sample: any, about: string}} Field */

const DEEPEST = 4;
const MOST = 120;

/**
 * The value at `path` and the fields below it; a list gives its first item and all values of a field.
 * @param {string} path @param {Record<string, any> | null | undefined} schema @param {any} [sample] @returns {Field[]}
 */
export function fieldsOf(path, schema, sample, depth = 0) {
  const type = typeOf(schema, sample);
  const here = { path, type, sample, about: schema?.description ?? "" };
  if (depth >= DEEPEST) return [here];
  if (type === "list") {
    const one = Array.isArray(sample) ? sample[0] : undefined;
    const items = schema?.items && !Array.isArray(schema.items) ? schema.items : undefined;
    const below = typeOf(items, one) === "object" ? fieldsOf(`${path}[]`, items, undefined, depth + 1).slice(1).map((field) => ({ ...field, type: "list" })) : [];
    return [here, ...below].slice(0, MOST);
  }
  const names = new Set([...Object.keys(schema?.properties ?? {}), ...(type === "object" && sample && !Array.isArray(sample) ? Object.keys(sample) : [])]);
  const below = [...names].slice(0, 40).flatMap((name) => fieldsOf(`${path}.${named(name)}`, schema?.properties?.[name], sample?.[name], depth + 1));
  return [here, ...below].slice(0, MOST);
}

/** @param {any} schema @param {any} sample */
export function typeOf(schema, sample) {
  const named = Array.isArray(schema?.type) ? schema.type.find((/** @type {string} */ one) => one !== "null") : schema?.type;
  if (named) return KINDS[named] ?? named;
  if (Array.isArray(sample)) return "list";
  if (sample === null || sample === undefined) return schema?.properties ? "object" : "";
  return KINDS[typeof sample] ?? "";
}

/** @type {Record<string, string>} */
const KINDS = { array: "list", object: "object", string: "text", integer: "number", number: "number", boolean: "yes or no" };

/** What `typeOf` gives, as people read it. @param {string} type */
export function typeInWords(type) {
  const words = /** @type {Record<string, string>} */ ({ list: gettext("list"), object: gettext("object"), text: gettext("text"), number: gettext("number"), "yes or no": gettext("yes or no") });
  return words[type] ?? type;
}

/** A sample in one short line. @param {any} value */
export function short(value, letters = 60) {
  if (value === undefined) return "";
  if (Array.isArray(value)) return ngettext("%(number)s item", "%(number)s items", value.length);
  const text = typeof value === "string" ? `“${value.replace(/\s+/g, " ")}”` : JSON.stringify(value);
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

/** Schema and sample of what a plain path leads to; {} for another expression. @param {string} path @param {Record<string, {schema?: any, sample?: any}>} roots @returns {{schema?: any, sample?: any}} */
export function follow(path, roots) {
  const longest = Object.keys(roots).filter((root) => path === root || path.startsWith(`${root}.`) || path.startsWith(`${root}[`)).sort((one, two) => two.length - one.length)[0];
  if (!longest) return {};
  let { schema, sample } = roots[longest];
  const rest = path.slice(longest.length);
  if (!/^(\.(?:[A-Za-z_]\w*|"[^"]+"))*$/.test(rest)) return {};
  for (const match of rest.matchAll(/\.(?:([A-Za-z_]\w*)|"([^"]+)")/g)) {
    const name = match[1] ?? match[2];
    [schema, sample] = [schema?.properties?.[name], sample?.[name]];
  }
  return { schema, sample };
}

/** What `item` is in a loop over this. @param {{schema?: any, sample?: any}} list @returns {{schema?: any, sample?: any}} */
export function itemOf({ schema, sample }) {
  if (Array.isArray(sample)) return { schema: schema?.items, sample: sample[0] };
  if (sample && typeof sample === "object") {
    const [entry] = Object.entries(sample);
    return { sample: entry && { key: entry[0], value: entry[1] } };
  }
  return { schema: schema?.items };
}
