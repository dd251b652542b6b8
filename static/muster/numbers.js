// Numbers and amounts in the language of the page; `localized` of studio/templatetags/muster.py writes the server's.

// Node.js, which tests this, has no document.
const LANGUAGE = globalThis.document?.documentElement.lang || "en";
const CENT = 0.01;
const SMALLEST = 0.000001;

/**
 * A number with the points and commas of the language.
 * @param {number} value @param {Intl.NumberFormatOptions} [options]
 */
export const number = (value, options) => new Intl.NumberFormat(LANGUAGE, options).format(value);

/** With exactly so many digits after the point or comma. @param {number} value @param {number} digits */
export function fixed(value, digits) {
  return number(value, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** @param {number} value @param {Intl.NumberFormatOptions} options */
function formatDollars(value, options) {
  return number(value, { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", ...options });
}

/**
 * US dollars, as runs/models/figures/money.py writes them: most calls of a model cost a part of a cent.
 * @param {number | string | null | undefined} cost
 */
export function money(cost) {
  const amount = Number(cost || 0);
  if (!amount) return formatDollars(0, { maximumFractionDigits: 0 });
  if (amount >= CENT) return formatDollars(amount, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  if (amount >= SMALLEST) return formatDollars(amount, { maximumSignificantDigits: 2, minimumSignificantDigits: 1 });
  return `<${formatDollars(SMALLEST, { maximumSignificantDigits: 1 })}`;
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
  return JSON.parse(text, /** @type {any} */ (keepDigits));
}

/** What JSON.parse calls for each value. @param {string} _key @param {any} value @param {{source: string}} context */
function keepDigits(_key, value, context) {
  const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
  const isWritten = isRounded && /^-?\d+$/.test(context.source); // 1e30 is no list of digits
  return isWritten ? new Exact(context.source) : value;
}
