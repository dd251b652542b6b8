// A JSON Schema as rows of a table (name, type, required, description), and back. Parts without a document.
import { gettext } from "./texts.js";

/** @typedef {{name: string, type: string, isRequired: boolean, description: string, rest: Record<string, any>}} FieldRow `rest`: what has no column */

/** Type in the table → JSON Schema. The order is that of the choice. */
export const FIELD_TYPES = /** @type {Record<string, Record<string, any>>} */ ({
  text: { type: "string" },
  number: { type: "number" },
  integer: { type: "integer" },
  boolean: { type: "boolean" },
  texts: { type: "array", items: { type: "string" } },
  numbers: { type: "array", items: { type: "number" } },
  list: { type: "array" },
  object: { type: "object" },
});
/** @returns {Record<string, string>} */
export const typesInWords = () => ({
  text: gettext("text"),
  number: gettext("number"),
  integer: gettext("whole number"),
  boolean: gettext("yes or no"),
  texts: gettext("list of texts"),
  numbers: gettext("list of numbers"),
  list: gettext("list of anything"),
  object: gettext("object"),
});

// What a table of fields says of its whole object; other keywords need the text of the schema.
const PLAIN_KEYWORDS = new Set(["type", "properties", "required", "additionalProperties", "title", "description", "$schema"]);

/** The rows of a schema; null if it says more than a table can. @param {Record<string, any> | null} schema @returns {FieldRow[] | null} */
export function readFields(schema) {
  if (schema === null) return [];
  if (typeof schema !== "object" || Array.isArray(schema)) return null;
  if (Object.keys(schema).some((keyword) => !PLAIN_KEYWORDS.has(keyword))) return null;
  if (schema.type !== undefined && schema.type !== "object") return null;
  const required = new Set(schema.required ?? []);
  const rows = [];
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (typeof property !== "object" || property === null) return null;
    const type = findType(property);
    if (!type) return null;
    const rest = Object.fromEntries(Object.entries(property).filter(([keyword]) => !(keyword in FIELD_TYPES[type]) && keyword !== "description"));
    rows.push({ name, type, isRequired: required.has(name), description: property.description ?? "", rest });
    required.delete(name);
  }
  // A field that is required but not described has no row.
  return required.size ? null : rows;
}

/** The type of the table that a property has; "" for another. @param {Record<string, any>} property */
export function findType(property) {
  const isSame = (/** @type {Record<string, any>} */ schema) => {
    const items = JSON.stringify(schema.items ?? null);
    return property.type === schema.type && JSON.stringify(property.items ?? null) === items;
  };
  const match = Object.entries(FIELD_TYPES).find(([, schema]) => isSame(schema));
  return match?.[0] ?? "";
}

/** The schema with these rows; what the table cannot show of the old one is kept. @param {FieldRow[]} rows @param {Record<string, any> | null} before @returns {Record<string, any> | null} */
export function writeFields(rows, before) {
  const named = rows.filter((row) => row.name);
  const isEmpty = !named.length && !before;
  if (isEmpty) return null;
  /** @type {Record<string, any>} */
  const properties = {};
  for (const { name, type, description, rest } of named) {
    properties[name] = { ...FIELD_TYPES[type], ...rest, ...(description ? { description } : {}) };
  }
  const required = named.filter((row) => row.isRequired).map((row) => row.name);
  const { required: _old, ...kept } = before ?? {};
  const isNothingLeft = !named.length && !Object.keys(kept).some((keyword) => !["type", "properties"].includes(keyword));
  if (isNothingLeft) return null;
  return { ...kept, type: "object", properties, ...(required.length ? { required } : {}) };
}
