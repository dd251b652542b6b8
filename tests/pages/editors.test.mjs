// What the editors of agents, chains and functions share and what draws nothing, in Node: `node --test tests/pages/`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { matchLines, nameChanges } from "../../static/muster/changes.js";
import { START, withStart } from "../../static/muster/chain/draft.js";
import { SIZE, layout, pathDown } from "../../static/muster/chain/layout.js";
import { readFields, writeFields } from "../../static/muster/schemafields.js";

const LABELS = { timeout: "Time limit of a run", max_steps: "Steps of a run" };
const labelOf = (name, value) => value ?? LABELS[name] ?? name;
const labels = (changes) => nameChanges(changes, labelOf).map((change) => change.label);

test("changes are named as the form names its fields", () => {
  const changes = [{ path: "max_steps", from: 12, to: 20 }, { path: "timeout_s", from: 1, to: 2 }, { path: "model_params.temperature", from: null, to: 1 }];
  assert.deepEqual(labels(changes), ["Steps of a run", "Time limit of a run", "Temperature"]);
});

test("what the server computes is not shown", () => {
  const grant = { tool: "add", tool_id: 1, mode: "allow", definition_hash: "a", deadline_s: null };
  const changes = [{ path: "grants", from: [grant], to: [{ ...grant, definition_hash: "b", mode: "ask", deadline_s: 5 }] }, { path: "provider_id", from: 1, to: 2 }];
  assert.deepEqual(labels(changes), ["Tool “add”: Calls", "Tool “add”: Time limit of a call in seconds"]);
  const [mode] = nameChanges(changes, labelOf);
  assert.deepEqual([mode.from, mode.to], ["without asking", "ask before each call"]);
});

test("a tool whose definition changed is named even though its hash is not shown", () => {
  const [change] = nameChanges([{ path: "grants", from: [{ tool: "add", definition_hash: "a" }], to: [{ tool: "add", definition_hash: "b" }] }], labelOf);
  assert.equal(change.label, "Tool “add”");
});

test("steps are compared by their names, and their inputs by parameter", () => {
  const before = [{ key: "a", target: "x", target_kind: "tool", input: { text: "item" } }, { key: "b", target: "y", target_kind: "tool", input: {} }];
  const after = [{ key: "c", target: "z", target_kind: "agent", input: {} }, { ...before[0], input: { text: "item", top: { value: 3 } }, on_error: "continue" }];
  const changes = nameChanges([{ path: "steps", from: before, to: after }], labelOf);
  assert.deepEqual(changes.map(({ label, to }) => [label, to]), [
    ["Step “a”: Input: top", 3], ["Step “a”: If it fails", "The next steps go on"], ["Step “b”", "removed"], ["Step “c”", "added: agent z"],
  ]);
});

test("lines that left and came are found", () => {
  assert.deepEqual(matchLines(["a", "b"], ["a", "c"]), [["same", "a", "a"], ["removed", "b", ""], ["added", "", "c"]]);
});

test("a schema becomes rows and comes back, with what a row cannot show", () => {
  const schema = { type: "object", properties: { texts: { type: "array", items: { type: "string" }, maxItems: 9 }, limit: { type: "integer", description: "Words." } }, required: ["texts"], additionalProperties: false };
  const rows = readFields(schema);
  assert.deepEqual(rows.map(({ name, type, isRequired }) => [name, type, isRequired]), [["texts", "texts", true], ["limit", "integer", false]]);
  assert.deepEqual(writeFields(rows, schema), schema);
  assert.deepEqual(writeFields([{ name: "a", type: "text", isRequired: true, description: "", rest: {} }], null), { type: "object", properties: { a: { type: "string" } }, required: ["a"] });
  assert.equal(writeFields([], { type: "object", properties: {} }), null);
});

test("a schema that a table cannot show is left alone", () => {
  for (const schema of [{ oneOf: [] }, { type: "array" }, { properties: { a: { anyOf: [] } } }, { required: ["nobody"] }]) assert.equal(readFields(schema), null);
});

test("steps that wait for nothing begin at the start", () => {
  const draft = { steps: [{ key: "a", on_error: "fallback", fallback: "z" }, { key: "b", needs: ["a"] }, { key: "z" }], grants: [], output: "", strategy: "graph" };
  assert.deepEqual(withStart(draft).steps.map(({ key, needs = [] }) => [key, needs]), [[START, []], ["a", [START]], ["b", ["a"]], ["z", []]]);
});

test("in a tall place the steps follow one another downwards", () => {
  const draft = { steps: [{ key: "a" }, { key: "b", needs: ["a"] }, { key: "c", needs: ["a"] }], grants: [], output: "", strategy: "graph" };
  const { places, edges } = layout(draft, true);
  assert.ok(places.get("b").y >= places.get("a").y + SIZE.height);
  assert.equal(places.get("b").y, places.get("c").y);
  for (const edge of edges) assert.match(pathDown(edge), /^M[\d.]+ [\d.]+[CL]/);
});
