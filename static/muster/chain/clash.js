// Two people edit one chain: what only one of them changed is kept, step by step; where both did, the person chooses.
import { make } from "../page.js";
import * as ops from "./draft.js";
import { collisions } from "../row.js";
import { gettext } from "../texts.js";

/** @typedef {import("./editor.js").Editor} Editor */

/** Somebody else saved first: reads what they saved and shows both. @param {Editor} editor @param {HTMLElement} place */
export async function meet(editor, place) {
  const { steps: mine, grants: _grants, ...fields } = /** @type {any} */ (editor.changes());
  const before = editor.row.base;
  const theirs = await editor.row.load();
  const { adopted, both } = collisions(before, theirs, fields);
  const met = mine ? ops.merged(before.steps.map(ops.tidy), theirs.steps.map(ops.tidy), mine) : { steps: theirs.steps.map(ops.tidy), both: [] };
  const kept = mine ? [...editor.draft.grants, ...theirs.grants.filter((/** @type {any} */ one) => !editor.grantOf(one.tool))] : theirs.grants;
  editor.fields.fill({ ...theirs, ...fields });
  const read = /** @type {any} */ (editor.fields.read(theirs));
  editor.history.push({ steps: met.steps, grants: kept, output: read.output ?? "", strategy: read.strategy ?? "graph" });
  editor.replaced();
  const names = adopted.filter((one) => !["steps", "grants"].includes(one) || !mine).map(editor.fields.nameOf);
  const stepIn = (/** @type {any[]} */ steps, /** @type {string} */ key) => steps.find((one) => one.key === key);
  place.replaceChildren(make("h2", { textContent: gettext("Somebody else changed this chain while you were editing") }), make("p", { textContent: gettext("Nothing of theirs was overwritten, and nothing of yours is lost. Check, then save again.") }),
    ...(names.length ? [make("p", { textContent: gettext("Taken over, because you did not change it: %(names)s.", { names: names.join(", ") }) })] : []), ...(mine ? [make("p", { textContent: gettext("Steps that only one of you changed are as they were changed.") })] : []),
    ...met.both.map((key) => choice(gettext("Step “%(key)s”", { key }), stepIn(theirs.steps, key), stepIn(mine, key), (value) => { editor.change(value ? ops.put(editor.draft, key, value) : ops.remove(editor.draft, key)); editor.mark(editor.selected); })),
    ...both.map((one) => choice(editor.fields.nameOf(one), theirs[one], fields[one], (value) => { editor.fields.fill({ ...editor.row.base, ...editor.fields.read(editor.row.base), [one]: value }); editor.fieldChanged(); })));
  place.hidden = false;
  place.focus();
}

/** @param {string} title @param {any} theirs @param {any} mine @param {(value: any) => void} take */
function choice(title, theirs, mine, take) {
  const words = (/** @type {any} */ value) => (value === undefined ? "(deleted)" : typeof value === "string" ? value : JSON.stringify(value, null, 2));
  const side = (/** @type {string} */ whose, /** @type {any} */ value) => make("div", {}, make("p", { className: "small soft", textContent: whose }), make("pre", { className: "json", tabIndex: 0, role: "region", ariaLabel: `${whose}: ${title}`, textContent: words(value) }));
  const use = (/** @type {any} */ value, /** @type {string} */ whose) => { take(value); part.replaceChildren(make("p", { textContent: gettext("%(title)s: %(whose)s is in the draft.", { title, whose }) })); };
  const part = make("div", { className: "stack" }, make("h3", { textContent: title }), make("div", { className: "grid" }, side(gettext("Theirs"), theirs), side(gettext("Yours"), mine)),
    make("div", { className: "row" }, make("button", { type: "button", textContent: gettext("Keep mine"), ariaLabel: gettext("Keep mine: %(title)s", { title }), onclick: () => use(mine, "yours") }), make("button", { type: "button", textContent: gettext("Take theirs"), ariaLabel: gettext("Take theirs: %(title)s", { title }), onclick: () => use(theirs, "theirs") })));
  return part;
}
