// The function workbench: checks while typing, tries, saves, publishes; the other tabs load when they are first shown.
import { fixed } from "./numbers.js";
import { api, localise, make, tell } from "./page.js";
import { atField } from "./problems.js";
import { FunctionSettings } from "./functionsettings.js";
import { keptTo } from "./namesakes.js";
import { Row } from "./row.js";
import { SchemaForm } from "./schemaform.js";
import { sitePath } from "./site.js";
import { guard } from "./unsaved.js";
import { gettext, word } from "./texts.js";

/** @typedef {{line?: number, message?: string, hint?: string, code?: string}} Refusal */
/** @typedef {string | Node | null} Cell */

/** @param {string} id @returns {HTMLElement} */
const at = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

const bench = at("bench");
const source = /** @type {HTMLTextAreaElement} */ (at("source"));
const nameField = /** @type {HTMLInputElement} */ (at("name"));
const form = new SchemaForm(at("arguments"));
const asJson = /** @type {HTMLInputElement} */ (document.querySelector("[data-as-json]"));
const jsonArea = /** @type {HTMLTextAreaElement} */ (at("arguments-json"));
const outcome = at("outcome");
const settings = new FunctionSettings(/** @type {HTMLFormElement} */ (at("source-form")));
const edited = () => JSON.stringify([source.value, settings.read(), settings.sharing()]);
let stored = edited();
/** @type {string | null} */
let draft = null;
let checked = "";

/** An address of the function below /api/v1/. @param {string} [rest] */
const path = (rest = "") => keptTo(bench.dataset.query, `functions/${encodeURIComponent(bench.dataset.name ?? "")}${rest}`);
/** @param {any} value */
const pre = (value) => make("pre", { className: "json", tabIndex: 0, textContent: typeof value === "string" ? value : JSON.stringify(value, null, 2) });
/** @param {string} words */
const label = (words) => make("p", { className: "label small", textContent: words });
/** @param {string} at */
const time = (at) => make("time", { dateTime: at });
/** @param {number} ms */
const duration = (ms) => (ms < 1000 ? `${fixed(ms, ms < 10 ? 1 : 0)} ms` : `${fixed(ms / 1000, 2)} s`);

/** @param {string} name @param {string} text */
function wrong(name, text) {
  const place = /** @type {HTMLElement | null} */ (document.querySelector(`[data-wrong="${name}"]`));
  if (!place) { if (text) tell(text); return; }
  place.hidden = !text;
  place.textContent = text;
}

// -- checking ---------------------------------------------------------------------------------------------------------

async function check() {
  const now = edited();
  if (now === checked) return;
  checked = now;
  if (!source.value.trim()) return;
  const answer = await api("functions/validate", { method: "POST", body: { ...settings.whole(), source: source.value } }).catch((error) => ({ valid: false, refusals: error.details }));
  if (now !== edited()) return;
  showRefusals(answer.refusals ?? []);
  if (answer.input_schema) form.show(answer.input_schema);
  const flags = [answer.is_async ? "async" : "", answer.requires_context ? gettext("takes ctx") : "", answer.imports?.length ? gettext("imports %(imports)s", { imports: answer.imports.join(", ") }) : ""].filter(Boolean).join(", ");
  at("derived").textContent = answer.entry ? [gettext("Entry: %(entry)s%(flags)s.", { entry: answer.entry, flags: flags ? ` (${flags})` : "" }), answer.description].filter(Boolean).join(" ") : "";
}

/** @param {Refusal[]} refusals */
function showRefusals(refusals) {
  const items = refusals.map((one) => make("li", {}, make("strong", { textContent: one.line ? `${gettext("Line %(line)s.", { line: one.line })} ` : "" }), one.message ?? "", make("span", { className: "soft", textContent: one.hint ? ` ${one.hint}` : "" }), settings.remedy(one, check)));
  at("refusals").replaceChildren(...items);
  source.dispatchEvent(new CustomEvent("refusals", { detail: refusals.filter((one) => one.line) }));
}

// The editor writes into the text area without an event; looking twice a second costs nothing.
setInterval(check, 500);

// -- trying, saving, publishing -----------------------------------------------------------------------------------------

function readArguments() {
  if (!asJson.checked) return form.read();
  const value = JSON.parse(jsonArea.value || "{}");
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error(gettext("Enter a JSON object: {…}."));
  return value;
}

/** @param {import("./page.js").Problem} error */
const hasLines = (error) => error.details?.some((one) => one.line);

async function run() {
  wrong("arguments", "");
  let given;
  try { given = readArguments(); } catch (error) { wrong("arguments", error.message); return; }
  outcome.hidden = false;
  outcome.replaceChildren(make("p", {}, make("span", { className: "pill running", textContent: gettext("running") })));
  try {
    showOutcome(await api("functions/try", { method: "POST", body: { ...settings.whole(), source: source.value, arguments: given } }));
  } catch (error) {
    outcome.hidden = true;
    if (hasLines(error)) showRefusals(error.details);
    wrong("arguments", error.message);
  }
}

/** @param {Record<string, any>} told the answer of functions/try */
function showOutcome(told) {
  const good = told.status === "ok";
  const facts = [duration(told.wall_ms), `${fixed(told.cpu_ms, 0)} ms CPU`, `${Math.round(told.peak_kb / 1024)} MB`, gettext("isolation %(isolation)s", { isolation: told.isolation })];
  outcome.hidden = false;
  outcome.replaceChildren(
    make("p", { className: "row" }, make("span", { className: `pill ${good ? "ok" : "failed"}`, textContent: word(told.status) }), make("span", { className: "small soft", textContent: facts.join(" · ") })),
    ...(told.error ? [label(gettext("Error")), pre(`${told.error.type}: ${told.error.message}${told.error.line ? `\n${gettext("line %(line)s", { line: told.error.line })}` : ""}`)] : [label(gettext("Result")), pre(told.result)]),
    ...(told.printed ? [label(gettext("Printed")), pre(told.printed)] : []),
  );
}

async function save() {
  const isNew = !bench.dataset.name;
  const body = /** @type {Record<string, any>} */ ({ ...settings.read(), ...settings.sharing(), source: source.value });
  const sent = edited();
  if (isNew && (nameField.value.trim() || !body.display_name)) body.name = nameField.value.trim(); // else the server makes it
  wrong("name", "");
  try {
    const saved = await api(isNew ? "functions/" : path(), { method: isNew ? "POST" : "PATCH", body });
    draft = saved.draft_sha256;
    stored = sent;
    showRefusals([]);
    tell(gettext("The draft is saved."), "success");
    if (isNew) { history.replaceState(null, "", sitePath(`/functions/${saved.name}/`)); bench.dataset.name = nameField.value = saved.name; nameField.readOnly = true; }
    return isNew ? "new" : "saved";
  } catch (error) {
    if (hasLines(error)) showRefusals(error.details);
    const field = isNew && (error.code === "name_taken" || error.details.some((/** @type {Record<string, any>} */ one) => one.field === "name")) ? "name" : "source";
    wrong(field, atField(error, field));
    return "";
  }
}

async function publish() {
  wrong("source", "");
  if (!(await save())) return;
  try {
    const made = await api(path("/publish"), { method: "POST", body: { expected: draft } });
    tell(gettext("Version %(version)s is live.", { version: made.version }), "success");
    setTimeout(() => location.reload(), 600);
  } catch (error) { tell(gettext("Not published. %(problem)s", { problem: error.message })); }
}

guard(() => bench.dataset.editable === "yes" && edited() !== stored);
const runButton = /** @type {HTMLButtonElement} */ (document.querySelector("[data-run]"));
runButton.disabled = false;
at("try-form").addEventListener("submit", (event) => { event.preventDefault(); run(); });
document.querySelector("[data-try]")?.addEventListener("click", run);
document.querySelector("[data-save]")?.addEventListener("click", async () => { wrong("source", ""); if ((await save()) === "new") location.reload(); });
document.querySelector("[data-publish]")?.addEventListener("click", publish);
settings.form.addEventListener("submit", (event) => event.preventDefault());
asJson.addEventListener("change", () => {
  jsonArea.hidden = !asJson.checked;
  form.element.hidden = asJson.checked;
  try { if (asJson.checked) jsonArea.value = JSON.stringify(form.read(), null, 2); else form.fill(JSON.parse(jsonArea.value || "{}")); } catch { /* half-typed values stay where they are */ }
});
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey)) return;
  if (event.key === "Enter") { event.preventDefault(); run(); }
  if (event.key === "s" && bench.dataset.editable === "yes") { event.preventDefault(); save(); }
}, { capture: true });

// -- the other tabs -------------------------------------------------------------------------------------------------------

/** @param {string[]} heads @param {Cell[][]} rows @param {string} words where there are none */
function table(heads, rows, words) {
  if (!rows.length) return make("p", { className: "card soft", textContent: words });
  const head = make("tr", {}, ...heads.map((one) => make("th", { scope: "col", textContent: one })));
  const wrapped = make("div", { className: "scroll", tabIndex: 0 }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((/** @type {Cell} */ cell) => make("td", {}, cell)))))));
  localise(wrapped);
  return wrapped;
}

/** @param {string} words @param {() => unknown} onclick @param {string} [className] */
const button = (words, onclick, className = "quiet") => make("button", { type: "button", textContent: words, onclick, className });

/** @param {HTMLElement} panel */
async function versions(panel) {
  const row = new Row(path());
  await row.load(); // first, so that a change made since the list was read refuses the roll back
  const { results } = await api(path("/versions/"));
  const place = make("div", { className: "stack" });
  const rows = results.map((/** @type {any} */ one, /** @type {number} */ index) => [
    make("span", {}, make("strong", { textContent: `v${one.version} ` }), one.is_live ? make("span", { className: "pill live", textContent: gettext("live") }) : null),
    time(one.created_at), one.author ?? "–", one.note || "–",
    make("span", { className: "row" },
      results[index + 1] ? button(gettext("Compare with v%(version)s", { version: results[index + 1].version }), () => compare(place, results[index + 1].version, one.version)) : null,
      bench.dataset.editable === "yes" && !one.is_live ? button(gettext("Roll back to it"), () => rollBack(row, one.version)) : null),
  ]);
  panel.replaceChildren(make("div", { className: "stack" }, table([gettext("Version"), gettext("When"), gettext("Who"), gettext("What changed"), ""], rows, gettext("Nothing is published yet.")), place));
}

/** @param {HTMLElement} place @param {number} from @param {number} to */
async function compare(place, from, to) {
  const [old, now] = await Promise.all([from, to].map((one) => api(path(`/versions/${one}`))));
  const rows = sideBySide(old.source.split("\n"), now.source.split("\n")).map(([kind, a, left, b, right]) =>
    make("tr", { className: kind }, make("td", { className: "n", textContent: a ?? "" }), make("td", { className: "left", textContent: left }), make("td", { className: "n", textContent: b ?? "" }), make("td", { className: "right", textContent: right })));
  const { changes } = await api(path(`/diff?from=${from}&to=${to}`));
  const others = changes.filter((/** @type {any} */ one) => one.path !== "source").map((/** @type {any} */ one) => make("li", { className: "small", textContent: `${one.path}: ${JSON.stringify(one.from)} → ${JSON.stringify(one.to)}` }));
  place.replaceChildren(make("h2", { textContent: `v${from} → v${to}` }), make("ul", {}, ...others), make("div", { className: "scroll", tabIndex: 0 }, make("table", { className: "diff", ariaLabel: gettext("Differences") }, make("tbody", {}, ...rows))));
}

/** @typedef {[kind: "same" | "removed" | "added", leftNumber: number | null, left: string, rightNumber: number | null, right: string]} Pair */

/** The longest common subsequence of lines; sources are short enough for the square table. @param {string[]} left @param {string[]} right @returns {Pair[]} */
function sideBySide(left, right) {
  const length = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) for (let j = right.length - 1; j >= 0; j -= 1) length[i][j] = left[i] === right[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  /** @type {Pair[]} */
  const rows = [];
  for (let i = 0, j = 0; i < left.length || j < right.length;) {
    if (i < left.length && j < right.length && left[i] === right[j]) { rows.push(["same", i + 1, left[i], j + 1, right[j]]); i += 1; j += 1; }
    else if (j >= right.length || (i < left.length && length[i + 1][j] >= length[i][j + 1])) { rows.push(["removed", i + 1, left[i], null, ""]); i += 1; }
    else { rows.push(["added", null, "", j + 1, right[j]]); j += 1; }
  }
  return rows;
}

/** @param {Row} row as it was when the versions were listed @param {number} version */
async function rollBack(row, version) {
  if (!confirm(gettext("Make version %(version)s live again?", { version }))) return;
  try { await api(path("/rollback"), { method: "POST", body: { version }, headers: { "If-Match": row.etag } }); location.reload(); } catch (error) { tell(error.message); }
}

/** @param {HTMLElement} panel */
async function tests(panel) {
  const { results } = await api(path("/tests/"));
  const verdicts = make("div", { role: "status" });
  const rows = results.map((/** @type {any} */ one) => [one.name, make("code", { textContent: JSON.stringify(one.arguments) }), one.expects, make("code", { textContent: JSON.stringify(one.expected) }),
    button(gettext("Remove"), async () => { await api(path(`/tests/${one.id}`), { method: "DELETE" }).catch((error) => tell(error.message)); tests(panel); })]);
  const name = field(gettext("Name"), "input"), input = field(gettext("Arguments as JSON"), "textarea", JSON.stringify(safeArguments())), expected = field(gettext("Expected result as JSON"), "textarea");
  const add = make("form", { className: "card form" }, make("h2", { textContent: gettext("Add a test") }), ...[name, input, expected].flatMap((one) => [one.label, one.input]), make("div", { className: "actions" }, make("button", { className: "primary", textContent: gettext("Add") })));
  add.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await api(path("/tests/"), { method: "POST", body: { name: name.input.value, arguments: JSON.parse(input.input.value || "{}"), expected: JSON.parse(expected.input.value || "null") } });
      tests(panel);
    } catch (error) { tell(error.message); }
  });
  const all = button(gettext("Run all against the draft"), async () => {
    verdicts.replaceChildren(make("p", { className: "soft", textContent: gettext("Running…") }));
    const answer = await api(path("/tests/run"), { method: "POST", body: {} }).catch((error) => { tell(error.message); return null; });
    if (answer) verdicts.replaceChildren(make("p", { className: `note ${answer.failed ? "error" : "success"}`, textContent: gettext("%(passed)s passed, %(failed)s failed.", { passed: answer.passed, failed: answer.failed }) }), ...answer.results.filter((/** @type {any} */ one) => !one.ok).map((/** @type {any} */ one) => make("p", { className: "small", textContent: `${one.test}: ${one.reason}` })));
  }, "primary");
  panel.replaceChildren(make("div", { className: "stack" }, make("p", {}, all), verdicts, table([gettext("Name"), gettext("Arguments"), gettext("Expects"), gettext("Expected"), ""], rows, gettext("No test yet. Publishing runs them all and stops when one fails.")), add));
}

function safeArguments() { try { return readArguments(); } catch { return {}; } }

/** @param {string} words @param {"input" | "textarea"} tag @param {string} [value] */
function field(words, tag, value = "") {
  const id = `new-${words.toLowerCase().replaceAll(" ", "-")}`;
  return { label: make("label", { htmlFor: id, textContent: words }), input: make(tag, { id, value, required: tag === "input", ...(tag === "textarea" ? { className: "code", rows: 2 } : {}) }) };
}

/** @param {HTMLElement} panel */
async function executions(panel) {
  const { results } = await api(path("/executions/?limit=50"));
  const rows = results.map((/** @type {any} */ one) => [
    make("span", { className: `pill ${one.status === "ok" ? "ok" : "failed"}`, textContent: word(one.status) }), time(one.started_at), one.version ? `v${one.version}` : "–",
    make("code", { textContent: JSON.stringify(one.arguments).slice(0, 120) }), make("code", { textContent: JSON.stringify(one.error ?? one.result).slice(0, 120) }), duration(one.wall_ms),
    make("span", { className: "row" }, one.run ? make("a", { href: sitePath(`/runs/${one.run}/`), textContent: gettext("run") }) : null,
      bench.dataset.editable === "yes" ? button(gettext("Create a test"), async () => { try { await api(path("/tests/"), { method: "POST", body: { execution: one.execution } }); tell(gettext("A test was created from this execution."), "success"); } catch (error) { tell(error.message); } }) : null),
  ]);
  panel.replaceChildren(table([gettext("Outcome"), gettext("When"), gettext("Version"), gettext("Arguments"), gettext("Result"), gettext("Took"), ""], rows, gettext("No executions yet.")));
}

/** @param {HTMLElement} panel */
async function replay(panel) {
  const place = make("div", { role: "status" });
  const go = button(gettext("Replay my last 20 inputs against the draft"), async () => {
    place.replaceChildren(make("p", { className: "soft", textContent: gettext("Running…") }));
    try {
      const answer = await api(path("/replay"), { method: "POST", body: { limit: 20 } });
      const rows = answer.differing.map((/** @type {any} */ one) => [make("code", { textContent: JSON.stringify(one.arguments) }), make("code", { textContent: JSON.stringify(one.before.error ?? one.before.result) }), make("code", { textContent: JSON.stringify(one.after.error ?? one.after.result) }), one.reason]);
      place.replaceChildren(make("p", { className: `note ${rows.length ? "warning" : "success"}`, textContent: gettext("%(same)s of %(replayed)s give the same.", { same: answer.same, replayed: answer.replayed }) }), ...(rows.length ? [table([gettext("Arguments"), gettext("Before"), gettext("Now"), gettext("Why")], rows, "")] : []));
    } catch (error) { place.replaceChildren(make("p", { className: "note error", textContent: error.message })); }
  }, "primary");
  panel.replaceChildren(make("div", { className: "stack" }, make("p", { className: "soft", textContent: gettext("Runs recent inputs against the current draft, and lists what would have been different.") }), make("p", {}, go), place));
}

/** @type {Record<string, (panel: HTMLElement) => Promise<void>>} */
const LOADERS = { versions, tests, executions, replay };
document.addEventListener("shown", (event) => load(/** @type {Element} */ (event.target).id));
/** @param {string} name */
function load(name) { LOADERS[name]?.(at(`panel-${name}`)).catch((error) => tell(error.message)); }
if (location.hash) load(location.hash.slice(1));
check();
