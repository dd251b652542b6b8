// What the API refused, in words for a person. Parts without a document.

/**
 * The `error` of an answer of the API.
 * @typedef {{message?: string, hint?: string, code?: string, details?: Record<string, any>[]}} Refusal
 */

// The message and the hint of these say that the details say what is wrong; a page shows the details.
const IN_DETAILS = new Set(["invalid", "invalid_arguments"]);

/** The refusal in one line; "" if the answer has no words. @param {Refusal} refusal */
export function inWords({ message = "", hint = "", code = "", details = [] }) {
  const reasons = details.filter((detail) => detail.message).map(formatDetail);
  if (reasons.length && IN_DETAILS.has(code)) return reasons.join(" ");
  return [message, ...reasons, hint].filter(Boolean).join(" ");
}

/** @param {Record<string, any>} detail */
function formatDetail({ field, message }) {
  return field ? `${field}: ${message}` : message;
}

/**
 * What is shown at a field, whose label says its name: the reasons about it, else the whole line.
 * @param {{message: string, details?: Record<string, any>[]}} error @param {string} field
 */
export function atField(error, field) {
  const details = (error.details ?? []).filter((detail) => detail.field === field && detail.message);
  return details.map((detail) => detail.message).join(" ") || error.message;
}
