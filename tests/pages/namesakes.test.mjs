// Addresses that keep to one of several rows with one name, in Node.
import assert from "node:assert/strict";
import { test } from "node:test";
import { keptTo } from "../../static/muster/namesakes.js";

test("an address keeps to the row of the page, whatever else it asks for", () => {
  assert.equal(keptTo("owner=", "functions/a/tests/"), "functions/a/tests/?owner=");
  assert.equal(keptTo("owner=alice%40x", "functions/a/diff?from=1&to=2"), "functions/a/diff?from=1&to=2&owner=alice%40x");
  for (const query of ["", undefined]) assert.equal(keptTo(query, "functions/a"), "functions/a");
});
