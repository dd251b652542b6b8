// The draft of a chain in the editor, and what can be done with it. Pure: each change returns a new draft.
// Steps are as the API has them: key, agent | tool | chain | target_kind: "router", needs, input, when, for_each, options.
import { gettext } from "../texts.js";

/** @typedef {Record<string, any>} Step */
/** @typedef {{steps: Step[], grants: Record<string, any>[], output: string, strategy: string}} Draft */

export const KINDS = ["agent", "tool", "chain"];

// Stands for the start of a chain where steps are chosen; no step can have this key.
export const START = "$start";

/** @param {Step} step */
export const kindOf = (step) => KINDS.find((kind) => kind in step) ?? step.target_kind ?? "tool";

/** @param {Step} step */
export const targetOf = (step) => step[kindOf(step)] ?? step.target ?? "";

/** @param {Draft} draft @param {string} key */
export const stepOf = (draft, key) => draft.steps.find((step) => step.key === key);

/** A name in an expression: `read`, `"read-all"`. @param {string} key */
export const named = (key) => (/^[A-Za-z_]\w*$/.test(key) ? key : JSON.stringify(key));

/** @param {Step} step @param {string} kind @param {string} name @returns {Step} */
export function withTarget(step, kind, name) {
  const { agent: _a, tool: _t, chain: _c, target_kind: _k, target: _n, target_version: _v, key, ...rest } = step;
  return { key, ...(kind === "router" ? { target_kind: "router" } : { [kind]: name }), ...rest };
}

/** Without empty values, as the server writes a step. @param {Step} step @returns {Step} */
export function tidy(step) {
  return Object.fromEntries(Object.entries(step).filter(([, value]) => !(value === null || value === undefined || value === "" || (typeof value === "object" && !Object.keys(value).length))));
}

/** A key that no step has yet, made from any words. @param {Step[]} steps @param {string} wish */
export function freeKey(steps, wish) {
  const base = wish.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "").slice(0, 48) || "step";
  const taken = new Set(steps.map((step) => step.key));
  let key = base;
  for (let number = 2; taken.has(key); number += 1) key = `${base}_${number}`;
  return key;
}

/** The same meaning, whatever the order of the fields. @param {any} one @param {any} other */
export const equal = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));

/** @param {any} value @returns {any} */
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value ?? null;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]));
}

// -- which step waits for which -----------------------------------------------------------------------------------------

/** @param {Draft} draft keys of steps that only run in place of a failed one */
export const fallbacks = (draft) => new Set(draft.steps.filter((step) => step.on_error === "fallback" && step.fallback).map((step) => step.fallback));

/** What each step waits for, as the server counts it: one after the other adds the step before. @param {Draft} draft @returns {Map<string, string[]>} */
export function needsOf(draft) {
  const spare = fallbacks(draft);
  const found = new Map();
  let before = "";
  for (const step of draft.steps) {
    if (spare.has(step.key)) { found.set(step.key, []); continue; }
    const own = [...new Set(step.needs ?? [])];
    found.set(step.key, draft.strategy === "sequential" && before && !own.includes(before) ? [...own, before] : own);
    before = step.key;
  }
  return found;
}

/** The draft with its start as a step that those wait for which wait for nothing: for the picture. @param {Draft} draft @returns {Draft} */
export function withStart(draft) {
  const needs = needsOf(draft);
  const spare = fallbacks(draft);
  const isFirst = (/** @type {Step} */ step) => !spare.has(step.key) && !needs.get(step.key)?.length;
  const steps = draft.steps.map((step) => (isFirst(step) ? { ...step, needs: [START] } : step));
  return { ...draft, steps: [{ key: START }, ...steps] };
}

/** All steps that have ended when this one starts. @param {Draft} draft @param {string} key @returns {Set<string>} */
export function upstream(draft, key) {
  const needs = needsOf(draft);
  const found = /** @type {Set<string>} */ (new Set());
  const replaced = draft.steps.filter((step) => step.on_error === "fallback" && step.fallback === key).map((step) => step.key);
  const waiting = [...(needs.get(key) ?? []), ...replaced];
  while (waiting.length) {
    const next = /** @type {string} */ (waiting.pop());
    if (found.has(next) || next === key) continue;
    found.add(next);
    waiting.push(...(needs.get(next) ?? []));
  }
  return found;
}

/** Why `to` cannot wait for `from`; empty if it can. @param {Draft} draft @param {string} from @param {string} to */
export function refusal(draft, from, to) {
  if (from === to) return gettext("A step cannot wait for itself.");
  const spare = fallbacks(draft);
  if (spare.has(from)) return gettext("“%(from)s” only runs when another step fails, so nothing can wait for it. Wait for the step it replaces.", { from });
  if (spare.has(to)) return gettext("“%(to)s” runs when another step fails, so it waits for nothing else.", { to });
  const path = way(draft, to, from);
  return path.length ? gettext("“%(to)s” cannot wait for “%(from)s”: they would wait for each other (%(to2)s).", { to, from, to2: [...path, to].join(" → ") }) : "";
}

/** The steps from one to another along the connections; empty if there is no way. @param {Draft} draft @param {string} from @param {string} to @returns {string[]} */
function way(draft, from, to) {
  const needs = needsOf(draft);
  /** @type {Map<string, string>} */
  const before = new Map();
  const waiting = [to];
  const seen = new Set(waiting);
  while (waiting.length) {
    const at = /** @type {string} */ (waiting.shift());
    if (at === from) {
      const path = [at];
      while (path.at(-1) !== to) path.push(/** @type {string} */ (before.get(/** @type {string} */ (path.at(-1)))));
      return path;
    }
    for (const need of needs.get(at) ?? []) if (!seen.has(need)) { seen.add(need); before.set(need, at); waiting.push(need); }
  }
  return [];
}

// -- expressions --------------------------------------------------------------------------------------------------------

const STEP = /(?<![.\w"-])steps\s*\.\s*(?:"((?:[^"\\]|\\.)+)"|([A-Za-z_]\w*))/g;

/** The parts of an expression that are code: constants in '…' and `…` are left alone. @param {string} text @param {(code: string) => string} change */
const inCode = (text, change) => text.split(/('(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)/).map((part, index) => (index % 2 ? part : change(part))).join("");

/** Keys of the steps that an expression reads. @param {string} text @returns {string[]} */
export function reads(text) {
  const found = new Set();
  inCode(text, (code) => { for (const match of code.matchAll(STEP)) found.add(match[1] ?? match[2]); return code; });
  return [...found];
}

/** @param {string} text @param {string} before @param {string} after */
export const renamedIn = (text, before, after) => inCode(text, (code) => code.replace(STEP, (all, quoted, plain) => ((quoted ?? plain) === before ? `steps.${named(after)}` : all)));

/** Each expression of a step goes through `change`. @param {Step} step @param {(text: string) => string} change @returns {Step} */
function mapped(step, change) {
  const one = (/** @type {any} */ value) => (typeof value === "string" ? change(value) : typeof value?.path === "string" ? { ...value, path: change(value.path) } : value);
  const all = (/** @type {Record<string, any>} */ values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, one(value)]));
  const made = { ...step };
  for (const name of ["when", "for_each"]) if (made[name]) made[name] = change(made[name]);
  for (const name of ["input", "variables"]) if (made[name]) made[name] = all(made[name]);
  if (made.context) made.context = made.context.map((/** @type {any} */ source) => (source.id ? { ...source, id: one(source.id) } : source));
  return made;
}

/** @param {Step} step @returns {string[]} */
export function readsOf(step) {
  /** @type {string[]} */
  const found = [];
  mapped(step, (text) => { found.push(...reads(text)); return text; });
  return [...new Set([...found, ...(step.context ?? []).map((/** @type {any} */ source) => source.step).filter(Boolean)])];
}

/** What refers to this step: `waits`, `reads`, `instead` by key; "" is the chain's output. @param {Draft} draft @param {string} key */
export function neededBy(draft, key) {
  const found = draft.steps.filter((step) => step.key !== key).flatMap((step) => [
    ...((step.needs ?? []).includes(key) ? [{ key: step.key, how: gettext("waits for it") }] : []),
    ...(readsOf(step).includes(key) ? [{ key: step.key, how: gettext("reads its output") }] : []),
    ...(step.fallback === key ? [{ key: step.key, how: gettext("runs it when it fails") }] : []),
  ]);
  return [...found, ...(reads(draft.output).includes(key) ? [{ key: "", how: gettext("the result of the chain reads it") }] : [])];
}

// -- changes ------------------------------------------------------------------------------------------------------------

/** @param {Draft} draft @param {string} key @param {Record<string, any>} values @returns {Draft} */
export const change = (draft, key, values) => ({ ...draft, steps: draft.steps.map((step) => (step.key === key ? tidy({ ...step, ...values }) : step)) });

/** @param {Draft} draft @param {string} key @param {Step} step @returns {Draft} */
export const replace = (draft, key, step) => ({ ...draft, steps: draft.steps.map((one) => (one.key === key ? tidy(step) : one)) });

/** The same for a step that may have been deleted. @param {Draft} draft @param {string} key @param {Step} step @returns {Draft} */
export const put = (draft, key, step) => (stepOf(draft, key) ? replace(draft, key, step) : { ...draft, steps: [...draft.steps, tidy(step)] });

/** A new step behind another, which it waits for; without `after`, at the end. @param {Draft} draft @param {{kind: string, name: string}} target @param {string} [after] @returns {{draft: Draft, key: string}} */
export function add(draft, { kind, name }, after = "") {
  const key = freeKey(draft.steps, name || kind);
  const place = draft.steps.findIndex((step) => step.key === after);
  const needs = after && draft.strategy === "graph" && !fallbacks(draft).has(after) ? { needs: [after] } : {};
  const step = withTarget({ key, ...needs }, kind, name);
  return { key, draft: { ...draft, steps: draft.steps.toSpliced(place < 0 ? draft.steps.length : place + 1, 0, step) } };
}

/** @param {Draft} draft @param {string} key @returns {{draft: Draft, key: string}} */
export function duplicate(draft, key) {
  const place = draft.steps.findIndex((step) => step.key === key);
  const copy = { ...structuredClone(draft.steps[place]), key: freeKey(draft.steps, key) };
  return { key: copy.key, draft: { ...draft, steps: draft.steps.toSpliced(place + 1, 0, copy) } };
}

/** Those that waited for it wait for what it waited for; expressions that read it stay, and are reported. @param {Draft} draft @param {string} key @returns {Draft} */
export function remove(draft, key) {
  const own = stepOf(draft, key)?.needs ?? [];
  const steps = draft.steps.filter((step) => step.key !== key).map((step) => {
    const made = { ...step };
    if (step.needs?.includes(key)) made.needs = [...new Set([...step.needs.filter((/** @type {string} */ one) => one !== key), ...own])];
    if (step.fallback === key) { made.on_error = "stop"; delete made.fallback; }
    return tidy(made);
  });
  return { ...draft, steps };
}

/** With everything that refers to it. @param {Draft} draft @param {string} before @param {string} after @returns {Draft} */
export function rename(draft, before, after) {
  const steps = draft.steps.map((step) => {
    const made = mapped(step, (text) => renamedIn(text, before, after));
    if (made.needs) made.needs = made.needs.map((/** @type {string} */ one) => (one === before ? after : one));
    if (made.fallback === before) made.fallback = after;
    if (made.context) made.context = made.context.map((/** @type {any} */ source) => (source.step === before ? { ...source, step: after } : source));
    return made.key === before ? { ...made, key: after } : made;
  });
  return { ...draft, steps, output: renamedIn(draft.output, before, after) };
}

/** Why a step cannot have this name; empty if it can. @param {Draft} draft @param {string} before @param {string} after */
export function misnamed(draft, before, after) {
  if (!/^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$/.test(after)) return gettext("Use lower-case letters, digits, - and _.");
  return after !== before && stepOf(draft, after) ? gettext("Another step is called “%(after)s”.", { after }) : "";
}

/** @param {Draft} draft @param {string} from @param {string} to @returns {Draft} */
export const connect = (draft, from, to) => change(draft, to, { needs: [...new Set([...(stepOf(draft, to)?.needs ?? []), from])] });

/** @param {Draft} draft @param {string} from @param {string} to @returns {Draft} */
export const disconnect = (draft, from, to) => change(draft, to, { needs: (stepOf(draft, to)?.needs ?? []).filter((/** @type {string} */ one) => one !== from) });

/** In the list: the order matters one after the other, and for which alternative is asked first. @param {Draft} draft @param {string} key @param {number} by @returns {Draft} */
export function move(draft, key, by) {
  const place = draft.steps.findIndex((step) => step.key === key);
  const to = Math.max(0, Math.min(draft.steps.length - 1, place + by));
  return to === place ? draft : { ...draft, steps: draft.steps.toSpliced(place, 1).toSpliced(to, 0, draft.steps[place]) };
}

/** Tools that steps call and that are not granted. @param {Draft} draft @returns {Set<string>} */
export function ungranted(draft) {
  const granted = new Set(draft.grants.map((grant) => grant.tool));
  return new Set(draft.steps.filter((step) => step.tool && !granted.has(step.tool)).map((step) => step.tool));
}

/** Asks before what cannot be undone or leaves the site, as the server does. @param {Draft} draft @param {{name: string, kind?: string, effect?: string}} tool @param {string} [mode] @returns {Draft} */
export function grant(draft, { name, kind = "", effect = "" }, mode = "") {
  const wanted = mode || (["sends_out", "destructive"].includes(effect) ? "ask" : "allow");
  const fresh = { tool: name, kind, mode: wanted, decides: "starter", offline: "fail", context: [], decider_role: "", not_starter: false, allow_after_untrusted: false, version: null, deadline_s: null };
  const is = (/** @type {Record<string, any>} */ one) => one.tool === name;
  return { ...draft, grants: draft.grants.some(is) ? draft.grants.map((one) => (is(one) ? { ...one, mode: wanted } : one)) : [...draft.grants, fresh] };
}

// -- two people at once -------------------------------------------------------------------------------------------------

/**
 * Changes of two people to the steps of one chain, step by step.
 * @param {Step[]} before what both started from @param {Step[]} theirs @param {Step[]} mine
 * @returns {{steps: Step[], both: string[]}} `both`: keys of steps that both changed; mine are in `steps`
 */
export function merged(before, theirs, mine) {
  const by = (/** @type {Step[]} */ steps) => new Map(steps.map((step) => [step.key, step]));
  const [was, their, my] = [by(before), by(theirs), by(mine)];
  const both = /** @type {string[]} */ ([]);
  const chosen = /** @type {Map<string, Step | undefined>} */ (new Map());
  for (const key of new Set([...their.keys(), ...my.keys()])) {
    const [old, other, own] = [was.get(key), their.get(key), my.get(key)];
    const [theyChanged, iChanged] = [!equal(old, other), !equal(old, own)];
    if (theyChanged && iChanged && !equal(other, own)) both.push(key);
    chosen.set(key, iChanged ? own : other);
  }
  const order = [...mine, ...theirs.filter((step) => !my.has(step.key))].map((step) => step.key);
  return { steps: /** @type {Step[]} */ (order.map((key) => chosen.get(key)).filter(Boolean)), both };
}

// -- undo ---------------------------------------------------------------------------------------------------------------

const TOGETHER_MS = 1200;

export class History {
  /** @param {Draft} draft */
  constructor(draft) { this.reset(draft); }

  /** @param {Draft} draft */
  reset(draft) {
    /** @type {Draft} */
    this.now = draft;
    /** @type {Draft[]} */
    this.before = [];
    /** @type {Draft[]} */
    this.after = [];
    /** @type {string} */
    this.about = "";
    /** @type {number} */
    this.at = 0;
  }

  /** Typing in one field is one change. @param {Draft} draft @param {string} [about] @param {number} [at] */
  push(draft, about = "", at = Date.now()) {
    if (equal(draft, this.now)) return;
    const continues = about !== "" && about === this.about && at - this.at < TOGETHER_MS;
    if (!continues) this.before = [...this.before.slice(-199), this.now];
    this.after = [];
    this.now = draft;
    this.about = about;
    this.at = at;
  }

  undo() { return this.step(this.before, this.after); }

  redo() { return this.step(this.after, this.before); }

  /** @param {Draft[]} from @param {Draft[]} to */
  step(from, to) {
    const draft = from.pop();
    if (!draft) return false;
    to.push(this.now);
    [this.now, this.about] = [draft, ""];
    return true;
  }
}
