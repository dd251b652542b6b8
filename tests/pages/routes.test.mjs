// The reasons of the router in the person's language, in Node: `node --test tests/pages/`.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const GERMAN = { "can do %(what)s": "kann %(what)s", "shares the words %(words)s": "hat die Wörter %(words)s",
  "%(reason)s; equally good: %(others)s; chosen by track record, then by name": "%(reason)s; gleich gut: %(others)s" };
globalThis.gettext = (text) => GERMAN[text] ?? text;
const { routeReason } = await import("../../static/muster/routes.js");

test("reasons of the router are translated, and their values stay", () => {
  assert.equal(routeReason("can do “send invoices”"), "kann “send invoices”");
  assert.equal(routeReason("shares loan, rate; equally good: clerk; chosen by track record, then by name"), "hat die Wörter loan, rate; gleich gut: clerk");
});

test("what a model wrote stays, without a second full stop", () => {
  assert.equal(routeReason("It handles loans."), "It handles loans");
});

test("the router writes the reasons that are recognized", () => {
  const router = readFileSync(new URL("../../registry/routing/router.py", import.meta.url), "utf8");
  for (const text of ["can do {", "shares {", "similar in meaning", "nearest in meaning", "; equally good: {others}; chosen by track record, then by name",
    "The conversation is with this agent.", "The message was sent to this agent."]) assert.ok(router.includes(text), text);
});
