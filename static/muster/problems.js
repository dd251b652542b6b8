// What the API refused, in words for a person. Parts without a document.

/** @typedef {{message?: string, hint?: string, code?: string, details?: Record<string, any>[]}} Told the `error` of an answer of the API */

// The message and the hint of these say that the details say what is wrong; a page shows the details.
const IN_DETAILS = new Set(["invalid", "invalid_arguments"]);

/** The refusal in one line; "" if the answer has no words. @param {Told} told */
export function inWords({ message = "", hint = "", code = "", details = [] }) {
  const reasons = details.filter((one) => one.message).map((one) => [one.field, one.message].filter(Boolean).join(": "));
  return (reasons.length && IN_DETAILS.has(code) ? reasons : [message, ...reasons, hint]).filter(Boolean).join(" ");
}

/** What is shown at a field, whose label says its name: the reasons about it, else the whole line.
 * @param {{message: string, details?: Record<string, any>[]}} error @param {string} field */
export function atField(error, field) {
  const reasons = (error.details ?? []).filter((one) => one.field === field && one.message).map((one) => one.message);
  return reasons.join(" ") || error.message;
}
