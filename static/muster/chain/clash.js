// Two people edit one chain: what only one of them changed is kept, step by step; where both did, the person chooses.
import { make } from "../page.js";
import { collisions } from "../row.js";
import { gettext } from "../texts.js";
import * as ops from "./draft.js";

/** @typedef {import("./editor.js").Editor} Editor */

/** Somebody else saved first: reads what they saved and shows both. @param {Editor} editor @param {HTMLElement} place */
export async function resolveClash(editor, place) {
  const { steps: mine, grants: _grants, ...fields } = /** @type {any} */ (editor.changes());
  const before = editor.row.base;
  const theirs = await editor.row.load();
  const { adopted, both } = collisions(before, theirs, fields);
  const theirSteps = theirs.steps.map(ops.tidy);
  const met = mine ? ops.merged(before.steps.map(ops.tidy), theirSteps, mine) : { steps: theirSteps, both: [] };
  const newGrants = theirs.grants.filter((/** @type {any} */ grant) => !editor.grantOf(grant.tool));
  const grants = mine ? [...editor.draft.grants, ...newGrants] : theirs.grants;
  editor.fields.fill({ ...theirs, ...fields });
  const read = /** @type {any} */ (editor.fields.read(theirs));
  editor.history.push({ steps: met.steps, grants, output: read.output ?? "", strategy: read.strategy ?? "graph" });
  editor.replaced();
  const names = adopted.filter((name) => !["steps", "grants"].includes(name) || !mine).map((name) => editor.fields.nameOf(name));
  const parts = [
    make("h2", { textContent: gettext("Somebody else changed this chain while you were editing") }),
    make("p", { textContent: gettext("Nothing of theirs was overwritten, and nothing of yours is lost. Check, then save again.") }),
  ];
  if (names.length) parts.push(make("p", { textContent: gettext("Taken over, because you did not change it: %(names)s.", { names: names.join(", ") }) }));
  if (mine) parts.push(make("p", { textContent: gettext("Steps that only one of you changed are as they were changed.") }));
  const findStep = (/** @type {any[]} */ steps, /** @type {string} */ key) => steps.find((step) => step.key === key);
  for (const key of met.both) {
    const take = (/** @type {any} */ value) => {
      editor.change(value ? ops.put(editor.draft, key, value) : ops.remove(editor.draft, key));
      editor.mark(editor.selected);
    };
    parts.push(makeChoice(gettext("Step “%(key)s”", { key }), findStep(theirs.steps, key), findStep(mine, key), take));
  }
  for (const name of both) {
    const take = (/** @type {any} */ value) => {
      editor.fields.fill({ ...editor.row.base, ...editor.fields.read(editor.row.base), [name]: value });
      editor.fieldChanged();
    };
    parts.push(makeChoice(editor.fields.nameOf(name), theirs[name], fields[name], take));
  }
  place.replaceChildren(...parts);
  place.hidden = false;
  place.focus();
}

/** @param {any} value */
function describeValue(value) {
  if (value === undefined) return gettext("(deleted)");
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** @param {string} title @param {any} theirs @param {any} mine @param {(value: any) => void} take */
function makeChoice(title, theirs, mine, take) {
  const part = make("div", { className: "stack" });
  const use = (/** @type {any} */ value, /** @type {string} */ whose) => {
    take(value);
    part.replaceChildren(make("p", { textContent: gettext("%(title)s: %(whose)s is in the draft.", { title, whose }) }));
  };
  const makeSide = (/** @type {string} */ whose, /** @type {any} */ value) => {
    const text = make("pre", { className: "json", tabIndex: 0, role: "region", ariaLabel: `${whose}: ${title}`, textContent: describeValue(value) });
    return make("div", {}, make("p", { className: "small soft", textContent: whose }), text);
  };
  const keep = make("button", { type: "button", textContent: gettext("Keep mine"), ariaLabel: gettext("Keep mine: %(title)s", { title }), onclick: () => use(mine, gettext("yours")) });
  const adopt = make("button", { type: "button", textContent: gettext("Take theirs"), ariaLabel: gettext("Take theirs: %(title)s", { title }), onclick: () => use(theirs, gettext("theirs")) });
  const sides = make("div", { className: "grid" }, makeSide(gettext("Theirs"), theirs), makeSide(gettext("Yours"), mine));
  part.append(make("h3", { textContent: title }), sides, make("div", { className: "row" }, keep, adopt));
  return part;
}
