// Texts of scripts in the person's language. The catalog is a script of its own, which pages in English do not load.
/** @type {any} */
const catalog = globalThis;

/** @param {string} text @param {Record<string, string | number>} [values] for places such as %(name)s @returns {string} */
export function gettext(text, values = {}) {
  const found = catalog.gettext ? catalog.gettext(text) : text;
  return found.replace(/%\((\w+)\)s/g, (/** @type {string} */ whole, /** @type {string} */ name) => (name in values ? String(values[name]) : whole));
}
