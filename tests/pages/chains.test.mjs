// The parts of the chain editor that draw nothing, in Node: `node --test tests/pages/`.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as ops from "../../static/muster/chain/draft.js";
import { fieldsOf, follow, itemOf, short } from "../../static/muster/chain/fields.js";
import { SIZE, layout, pathOf } from "../../static/muster/chain/layout.js";
import { conditionInWords, conditionOf, expressionOf, inWords, textExpression, textOf, tookInWords } from "../../static/muster/chain/words.js";

const draft = (...steps) => ({ steps, grants: [], output: "", strategy: "graph" });
const line = () => draft({ key: "a", tool: "t" }, { key: "b", tool: "t", needs: ["a"] }, { key: "c", agent: "x", needs: ["b"], input: { message: "steps.b.output" } });
const keys = (made) => made.steps.map((step) => step.key);

test("a step is added behind another, which it waits for, with a key of its own", () => {
  const { draft: made, key } = ops.add(line(), { kind: "tool", name: "Look Up!" }, "a");
  assert.deepEqual([key, keys(made)], ["look_up", ["a", "look_up", "b", "c"]]);
  assert.deepEqual(ops.stepOf(made, key), { key: "look_up", tool: "Look Up!", needs: ["a"] });
  assert.equal(ops.add(made, { kind: "tool", name: "look_up" }, key).key, "look_up_2");
  assert.deepEqual(ops.add(draft(), { kind: "router", name: "" }).draft.steps, [{ key: "router", target_kind: "router" }]);
});

test("a circle is refused with the way it would take", () => {
  assert.match(ops.refusal(line(), "c", "a"), /“a” cannot wait for “c”.*\(a → b → c → a\)/);
  assert.equal(ops.refusal(line(), "a", "a"), "A step cannot wait for itself.");
  assert.equal(ops.refusal(line(), "a", "c"), "");
  const spare = draft({ key: "a", tool: "t", on_error: "fallback", fallback: "z" }, { key: "b", tool: "t" }, { key: "z", tool: "t" });
  assert.match(ops.refusal(spare, "z", "b"), /only runs when another step fails/);
  assert.match(ops.refusal(spare, "b", "z"), /waits for nothing else/);
});

test("one after the other, each step waits for the one before, and a way back is a circle", () => {
  const made = { ...draft({ key: "a" }, { key: "b" }, { key: "c" }), strategy: "sequential" };
  assert.deepEqual([...ops.needsOf(made).values()], [[], ["a"], ["b"]]);
  assert.deepEqual([...ops.upstream(made, "c")].sort(), ["a", "b"]);
  assert.notEqual(ops.refusal(made, "c", "a"), "");
});

test("deleting a step says who needs it and connects around it", () => {
  assert.deepEqual(ops.neededBy({ ...line(), output: "steps.b.output" }, "b"), [{ key: "c", how: "waits for it" }, { key: "c", how: "reads its output" }, { key: "", how: "the result of the chain reads it" }]);
  assert.deepEqual(ops.stepOf(ops.remove(line(), "b"), "c").needs, ["a"]);
  const spare = draft({ key: "a", tool: "t", on_error: "fallback", fallback: "z" }, { key: "z", tool: "t" });
  assert.deepEqual(ops.remove(spare, "z").steps, [{ key: "a", tool: "t", on_error: "stop" }]);
});

test("renaming a step renames it wherever it is named, and nowhere else", () => {
  const made = ops.rename({ ...draft(
    { key: "read", tool: "t", on_error: "fallback", fallback: "other" }, { key: "other", tool: "t" },
    { key: "write", agent: "x", needs: ["read"], when: "steps.read.output.n > `1` && steps.reader.output", for_each: 'steps . "read" .output[]', context: [{ source: "transcript", step: "read" }],
      input: { message: "join('', ['steps.read.output', to_string(steps.read.output)])", with: { path: "steps.read.output", default: 1 }, fixed: { value: "steps.read.output" }, other: "input.steps.read" } },
  ), output: "{a: steps.read.output}" }, "read", "read-all");
  const step = ops.stepOf(made, "write");
  assert.equal(made.output, '{a: steps."read-all".output}');
  assert.deepEqual([step.needs, step.context[0].step, keys(made)[0]], [["read-all"], "read-all", "read-all"]);
  assert.equal(step.when, 'steps."read-all".output.n > `1` && steps.reader.output');
  assert.equal(step.for_each, 'steps."read-all" .output[]');
  assert.deepEqual(step.input, { message: "join('', ['steps.read.output', to_string(steps.\"read-all\".output)])", with: { path: 'steps."read-all".output', default: 1 }, fixed: { value: "steps.read.output" }, other: "input.steps.read" });
  assert.equal(ops.stepOf(ops.rename(made, "other", "instead"), "read-all").fallback, "instead");
  assert.notEqual(ops.misnamed(made, "other", "write"), "");
  assert.notEqual(ops.misnamed(made, "other", "Not This"), "");
  assert.equal(ops.misnamed(made, "other", "other"), "");
});

test("undo and redo; typing in one field is one change", () => {
  const history = new ops.History(line());
  history.push(ops.change(history.now, "a", { when: "x" }), "a/when", 0);
  history.push(ops.change(history.now, "a", { when: "xy" }), "a/when", 500);
  history.push(ops.move(history.now, "a", 1), "", 600);
  assert.equal(history.before.length, 2);
  history.undo();
  assert.equal(ops.stepOf(history.now, "a").when, "xy");
  history.undo();
  assert.equal(ops.stepOf(history.now, "a").when, undefined);
  assert.equal(history.undo(), false);
  history.redo();
  history.redo();
  assert.deepEqual(keys(history.now), ["b", "a", "c"]);
  assert.equal(history.redo(), false);
});

test("changes of two people are merged step by step, and what both changed is named", () => {
  const before = line().steps;
  const mine = ops.change(line(), "a", { when: "mine" }).steps;
  const theirs = ops.add(ops.change(line(), "b", { when: "theirs" }), { kind: "tool", name: "new" }, "c").draft.steps;
  const { steps, both } = ops.merged(before, theirs, mine);
  assert.deepEqual([steps.map((step) => `${step.key}:${step.when ?? ""}`), both], [["a:mine", "b:theirs", "c:", "new:"], []]);
  const clash = ops.merged(before, ops.change(line(), "a", { when: "theirs" }).steps, mine);
  assert.deepEqual([clash.both, clash.steps[0].when], [["a"], "mine"]);
  assert.deepEqual(ops.merged(before, ops.remove(line(), "c").steps, mine).steps.map((step) => step.key), ["a", "b"]);
});

test("tools without a grant are found, and granted with the mode of their effect", () => {
  assert.deepEqual([...ops.ungranted(line())], ["t"]);
  const made = ops.grant(ops.grant(line(), { name: "t", effect: "sends_out" }), { name: "u", effect: "read" });
  assert.deepEqual(made.grants.map(({ tool, mode }) => [tool, mode]), [["t", "ask"], ["u", "allow"]]);
  assert.deepEqual(ops.grant(made, { name: "t" }, "deny").grants.map((one) => one.mode), ["deny", "allow"]);
});

test("conditions are read, written and told in words", () => {
  for (const [expression, words] of [
    ["steps.read.output.words > `2000`", "words of “read” is greater than 2000"], ["input.kind == 'letter'", "kind of the input is letter"],
    ["contains(steps.read.output, 'urgent')", "the output of “read” contains urgent"], ["!input.name", "name of the input is missing or empty"], ["output.done", "done of its output is there and not empty"],
  ]) {
    assert.equal(expressionOf(conditionOf(expression)), expression);
    assert.equal(conditionInWords(expression), words);
  }
  for (const [expression, value, words] of [
    ["input.count > input.limit", "input.limit", "count of the input is greater than limit of the input"],
    ["steps.read.output.words <= steps.\"a-b\".output.most", "steps.\"a-b\".output.most", "words of “read” is at most most of “a-b”"],
    ["contains(input.names, input.name)", "input.name", "names of the input contains name of the input"],
    ["input.event == 'input.limit'", "'input.limit'", "event of the input is 'input.limit'"], ["input.kind == 'item'", "item", "kind of the input is item"],
  ]) {
    assert.equal(conditionOf(expression).value, value);
    assert.equal(expressionOf(conditionOf(expression)), expression);
    assert.equal(conditionInWords(expression), words);
  }
  assert.equal(conditionOf("input.kind == item"), null);
  assert.equal(conditionOf("a > `1` && b"), null);
  assert.equal(conditionInWords("a || b"), "`a || b` is true");
  assert.equal(expressionOf({ left: "input.name", op: "==", value: "it's" }), "input.name == 'it\\'s'");
  assert.equal(conditionOf("input.name == 'it\\'s'").value, "it's");
});

test("a text with fields becomes an expression and comes back", () => {
  const text = "It's about {{input.title}}: {{steps.read.output}}";
  assert.equal(textExpression(text), "join('', ['It\\'s about ', to_string(input.title), ': ', to_string(steps.read.output)])");
  for (const one of [text, "plain", "{{input.title}}", ""]) assert.equal(textOf(textExpression(one)), one);
  assert.equal(textOf("join(' ', ['a', 'b'])"), null);
  assert.equal(textOf("steps.read.output"), null);
});

test("a step is told in words", () => {
  const step = { key: "s", when: "input.n > `1`", for_each: "input.texts", retry: { attempts: 3 }, approval: true, on_error: "continue", repeat_until: { condition: "output.done", limit: 3 } };
  assert.deepEqual(inWords(step, ["a", "b"]), ["after a, b", "only if n of the input is greater than 1", "for each of texts of the input", "again until done of its output is there and not empty, 3 times at most", "asks a person first", "2 more tries if it fails", "goes on if it fails"]);
  assert.deepEqual([tookInWords(20), tookInWords(1500), tookInWords(125_000)], ["20 ms", "1.5 s", "2 min 5 s"]);
});

test("fields come from schemas and samples", () => {
  const schema = { type: "object", properties: { rows: { type: "array", items: { type: "object", properties: { id: { type: "integer" } } } }, "a b": { type: "string", description: "Odd." } } };
  const found = fieldsOf("steps.read.output", schema, { rows: [{ id: 1 }, { id: 2 }], extra: true });
  assert.deepEqual(found.map(({ path, type }) => [path, type]), [["steps.read.output", "object"], ["steps.read.output.rows", "list"], ["steps.read.output.rows[].id", "list"], ['steps.read.output."a b"', "text"], ["steps.read.output.extra", "yes or no"]]);
  assert.equal(short(found[1].sample), "2 items");
  const roots = { input: { schema: { properties: { texts: { type: "array", items: { type: "string" } } } } }, "steps.read.output": { schema, sample: { rows: [{ id: 7 }] } } };
  assert.deepEqual(itemOf(follow("steps.read.output.rows", roots)).sample, { id: 7 });
  assert.deepEqual(itemOf(follow("input.texts", roots)).schema, { type: "string" });
  assert.deepEqual(follow("join('', input.texts)", roots), {});
});

test("steps stand in columns, and no connection runs behind a step", () => {
  const made = draft({ key: "a" }, { key: "b", needs: ["a"] }, { key: "c", needs: ["b"] }, { key: "d", needs: ["c", "a"], on_error: "fallback", fallback: "e" }, { key: "e" });
  const { places, columns, edges } = layout(made);
  assert.deepEqual(columns, [["a"], ["b"], ["c"], ["d"], ["e"]]);
  const long = edges.find(({ from, to }) => from === "a" && to === "d");
  for (const point of long.points.slice(1, -1)) {
    const key = [...places].find(([, at]) => Math.abs(at.x + SIZE.width / 2 - point.x) < 1)[0];
    const { y } = places.get(key);
    assert.ok(point.y < y || point.y > y + SIZE.height, key);
  }
  assert.match(pathOf(long), /^M[\d.]+ [\d.]+C/);
  assert.equal(edges.find(({ kind }) => kind === "instead").to, "e");
});

test("circles and unknown steps are drawn too", () => {
  const { places } = layout(draft({ key: "a", needs: ["b", "nobody"] }, { key: "b", needs: ["a"] }));
  assert.equal(places.size, 2);
});

test("two hundred steps are placed in well under a second", () => {
  const steps = Array.from({ length: 200 }, (_, at) => ({ key: `s${at}`, needs: [at - 1, at - 7].filter((one) => one >= 0).map((one) => `s${one}`) }));
  const before = performance.now();
  layout(draft(...steps));
  assert.ok(performance.now() - before < 5000);
});
