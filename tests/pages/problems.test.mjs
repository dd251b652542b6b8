// What a person reads when the API refuses what they typed, in Node: `node --test tests/pages/`.
import assert from "node:assert/strict";
import { test } from "node:test";

import { atField, inWords } from "../../static/muster/problems.js";

const details = [{ field: "name", code: "invalid", message: "Use lower-case letters." }];

test("a wrong value is explained without the words for programs around it", () => {
  const told = { code: "invalid", message: "The body is not valid.", hint: "See details.", details };
  assert.equal(inWords(told), "name: Use lower-case letters.");
  assert.equal(inWords({ ...told, code: "invalid_arguments", hint: "See the details." }), "name: Use lower-case letters.");
});

test("other refusals keep their message and say what helps", () => {
  const told = { code: "role_forbids", message: "Your role does not allow this.", hint: "Ask an administrator." };
  assert.equal(inWords(told), "Your role does not allow this. Ask an administrator.");
  assert.equal(inWords({ code: "invalid", message: "The file is empty." }), "The file is empty.");
  assert.equal(inWords({ code: "refused", message: "Refused.", details: [{ message: "Line 1." }] }), "Refused. Line 1.");
  assert.equal(inWords({}), "");
});

test("at its field a reason stands without the name of the field", () => {
  assert.equal(atField({ message: "name: Use lower-case letters.", details }, "name"), "Use lower-case letters.");
  assert.equal(atField({ message: "Taken.", details: [] }, "name"), "Taken.");
});
