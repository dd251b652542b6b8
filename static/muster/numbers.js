// Numbers and amounts in the language of the page; `localized` of studio/templatetags/muster.py writes the server's.

const LANGUAGE = globalThis.document?.documentElement.lang || "en"; // Node.js, which tests this, has no document

/** @param {number} value @param {Intl.NumberFormatOptions} [options] */
export const number = (value, options) => new Intl.NumberFormat(LANGUAGE, options).format(value);

/** With exactly so many digits after the point or comma. @param {number} value @param {number} digits */
export const fixed = (value, digits) => number(value, { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** @param {number} value @param {Intl.NumberFormatOptions} options */
const dollars = (value, options) => number(value, { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", ...options });

/** US dollars, as runs/models/figures/money.py writes them. @param {number | string | null | undefined} cost */
export function money(cost) {
  const amount = Number(cost || 0);
  if (amount >= 0.01) return dollars(amount, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  if (amount >= 0.000001) return dollars(amount, { maximumSignificantDigits: 2, minimumSignificantDigits: 1 });
  return amount ? `<${dollars(0.000001, { maximumSignificantDigits: 1 })}` : dollars(0, { maximumFractionDigits: 0 });
}

/** An integer that JavaScript's numbers would round, by its digits. JSON and texts show these. */
class Exact {
  /** @param {string} digits */
  constructor(digits) {
    this.digits = digits;
  }

  toString() {
    return this.digits;
  }

  toJSON() {
    return /** @type {any} */ (JSON).rawJSON(this.digits);
  }
}

/**
 * As JSON.parse, with every digit of large integers. Browsers without JSON.rawJSON round them.
 * @param {string} text @returns {any}
 */
export function parseExactly(text) {
  if (!("rawJSON" in JSON)) return JSON.parse(text);
  return JSON.parse(text, /** @type {any} */ ((/** @type {string} */ _key, /** @type {any} */ value, /** @type {{source: string}} */ context) =>
    (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source) ? new Exact(context.source) : value)));
}
