// Why the router chose an agent, in the person's language. Events keep the reason in English
// (registry/routing/router.py); what a model wrote as its reason stays as it is.
import { gettext } from "./texts.js";

const EQUAL = /^(.*); equally good: (.+); chosen by track record, then by name$/s;
/** @type {[RegExp, (value: string) => string][]} the router's sentences, with how they are translated */
const REASONS = [
  [/^can do (.+)$/s, (what) => gettext("can do %(what)s", { what })],
  [/^shares (.+)$/s, (words) => gettext("shares the words %(words)s", { words })],
  [/^(?:similar|nearest) in meaning$/, () => gettext("similar in meaning")],
  [/^The conversation is with this agent\.$/, () => gettext("the conversation is with this agent")],
  [/^The message was sent to this agent\.$/, () => gettext("the message was sent to this agent")],
];

/** @param {string} reason @returns {string} without a full stop at its end */
export function routeReason(reason) {
  const equal = EQUAL.exec(reason);
  if (equal) {
    const values = { reason: routeReason(equal[1]), others: equal[2] };
    return gettext("%(reason)s; equally good: %(others)s; chosen by track record, then by name", values);
  }
  for (const [pattern, translate] of REASONS) {
    const match = pattern.exec(reason);
    if (match) return translate(match[1] ?? "");
  }
  return reason.replace(/\.$/, "");
}
