// The function workbench: checks while typing, tries, saves, publishes; the other tabs load when they are first shown.
import { api, localise, make, tell } from "./page.js";
import { FunctionSettings } from "./functionsettings.js";
import { SchemaForm } from "./schemaform.js";
import { guard } from "./unsaved.js";

const bench = document.getElementById("bench");
const source = document.getElementById("source");
const form = new SchemaForm(document.getElementById("arguments"));
const asJson = document.querySelector("[data-as-json]");
const jsonArea = document.getElementById("arguments-json");
const outcome = document.getElementById("outcome");
const settings = new FunctionSettings(document.getElementById("source-form"));
const edited = () => JSON.stringify([source.value, settings.read()]);
let stored = edited();
let draft = null;
let checked = null;

const path = () => `functions/${encodeURIComponent(bench.dataset.name)}`;
const pre = (value) => make("pre", { className: "json", tabIndex: 0, textContent: typeof value === "string" ? value : JSON.stringify(value, null, 2) });
const label = (words) => make("p", { className: "label small", textContent: words });
const time = (at) => make("time", { dateTime: at });
const duration = (ms) => (ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(2)} s`);

function wrong(name, text) {
  const place = document.querySelector(`[data-wrong="${name}"]`);
  if (!place) return tell(text);
  place.hidden = !text;
  place.textContent = text ?? "";
  return place;
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
  const flags = [answer.is_async ? "async" : "", answer.requires_context ? "takes ctx" : "", answer.imports?.length ? `imports ${answer.imports.join(", ")}` : ""].filter(Boolean).join(", ");
  document.getElementById("derived").textContent = answer.entry ? [`Entry: ${answer.entry}${flags ? ` (${flags})` : ""}.`, answer.description].filter(Boolean).join(" ") : "";
}

function showRefusals(refusals) {
  const items = refusals.map((one) => make("li", {}, make("strong", { textContent: one.line ? `Line ${one.line}. ` : "" }), one.message ?? "", make("span", { className: "soft", textContent: one.hint ? ` ${one.hint}` : "" }), settings.remedy(one, check)));
  document.getElementById("refusals").replaceChildren(...items);
  source.dispatchEvent(new CustomEvent("refusals", { detail: refusals.filter((one) => one.line) }));
}

// The editor writes into the text area without an event; looking twice a second costs nothing.
setInterval(check, 500);

// -- trying, saving, publishing -----------------------------------------------------------------------------------------

function readArguments() {
  if (!asJson.checked) return form.read();
  const value = JSON.parse(jsonArea.value || "{}");
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("Enter a JSON object: {…}.");
  return value;
}

async function run() {
  wrong("arguments", "");
  let given;
  try { given = readArguments(); } catch (error) { wrong("arguments", error.message); return; }
  outcome.hidden = false;
  outcome.replaceChildren(make("p", {}, make("span", { className: "pill running", textContent: "running" })));
  try {
    showOutcome(await api("functions/try", { method: "POST", body: { ...settings.whole(), source: source.value, arguments: given } }));
  } catch (error) {
    outcome.hidden = true;
    if (error.details.some((one) => one.line)) showRefusals(error.details);
    wrong("arguments", error.message);
  }
}

function showOutcome(told) {
  const good = told.status === "ok";
  const facts = [duration(told.wall_ms), `${told.cpu_ms.toFixed(0)} ms CPU`, `${Math.round(told.peak_kb / 1024)} MB`, `isolation ${told.isolation}`];
  outcome.hidden = false;
  outcome.replaceChildren(
    make("p", { className: "row" }, make("span", { className: `pill ${good ? "ok" : "failed"}`, textContent: told.status }), make("span", { className: "small soft", textContent: facts.join(" · ") })),
    ...(told.error ? [label("Error"), pre(`${told.error.type}: ${told.error.message}${told.error.line ? `\nline ${told.error.line}` : ""}`)] : [label("Result"), pre(told.result)]),
    ...(told.printed ? [label("Printed"), pre(told.printed)] : []),
  );
}

async function save() {
  const isNew = !bench.dataset.name;
  const body = { ...settings.read(), source: source.value };
  const sent = edited();
  if (isNew) body.name = document.getElementById("name").value.trim();
  wrong("name", "");
  try {
    const saved = await api(isNew ? "functions/" : path(), { method: isNew ? "POST" : "PATCH", body });
    draft = saved.draft_sha256;
    stored = sent;
    showRefusals([]);
    tell("The draft is saved.", "success");
    if (isNew) { history.replaceState(null, "", `/functions/${saved.name}/`); bench.dataset.name = saved.name; document.getElementById("name").readOnly = true; }
    return isNew ? "new" : "saved";
  } catch (error) {
    if (error.details.some((one) => one.line)) showRefusals(error.details);
    const field = isNew && (error.code === "name_taken" || error.details.some((one) => one.field === "name")) ? "name" : "source";
    wrong(field, error.message);
    return "";
  }
}

async function publish() {
  wrong("source", "");
  if (!(await save())) return;
  try {
    const made = await api(`${path()}/publish`, { method: "POST", body: { expected: draft } });
    tell(`Version ${made.version} is live.`, "success");
    setTimeout(() => location.reload(), 600);
  } catch (error) { tell(`Not published. ${error.message}`); }
}

guard(() => bench.dataset.editable === "yes" && edited() !== stored);
document.querySelector("[data-run]").disabled = false;
document.getElementById("try-form").addEventListener("submit", (event) => { event.preventDefault(); run(); });
document.querySelector("[data-try]").addEventListener("click", run);
document.querySelector("[data-save]")?.addEventListener("click", async () => { wrong("source", ""); if ((await save()) === "new") location.reload(); });
document.querySelector("[data-publish]")?.addEventListener("click", publish);
document.getElementById("source-form").addEventListener("submit", (event) => event.preventDefault());
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

function table(heads, rows, words) {
  if (!rows.length) return make("p", { className: "card soft", textContent: words });
  const head = make("tr", {}, ...heads.map((one) => make("th", { scope: "col", textContent: one })));
  const wrapped = make("div", { className: "scroll", tabIndex: 0 }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell)))))));
  localise(wrapped);
  return wrapped;
}

const button = (words, onclick, className = "quiet") => make("button", { type: "button", textContent: words, onclick, className });

async function versions(panel) {
  const { results } = await api(`${path()}/versions/`);
  const place = make("div", { className: "stack" });
  const rows = results.map((one, index) => [
    make("span", {}, make("strong", { textContent: `v${one.version} ` }), one.is_live ? make("span", { className: "pill live", textContent: "live" }) : null),
    time(one.created_at), one.author ?? "–", one.note || "–",
    make("span", { className: "row" },
      results[index + 1] ? button(`Compare with v${results[index + 1].version}`, () => compare(place, results[index + 1].version, one.version)) : null,
      bench.dataset.editable === "yes" && !one.is_live ? button("Roll back to it", () => rollBack(one.version)) : null),
  ]);
  panel.replaceChildren(make("div", { className: "stack" }, table(["Version", "When", "Who", "What changed", ""], rows, "Nothing is published yet."), place));
}

async function compare(place, from, to) {
  const [old, now] = await Promise.all([from, to].map((one) => api(`${path()}/versions/${one}`)));
  const rows = sideBySide(old.source.split("\n"), now.source.split("\n")).map(([kind, a, left, b, right]) =>
    make("tr", { className: kind }, make("td", { className: "n", textContent: a ?? "" }), make("td", { className: "left", textContent: left }), make("td", { className: "n", textContent: b ?? "" }), make("td", { className: "right", textContent: right })));
  const { changes } = await api(`${path()}/diff?from=${from}&to=${to}`);
  const others = changes.filter((one) => one.path !== "source").map((one) => make("li", { className: "small", textContent: `${one.path}: ${JSON.stringify(one.from)} → ${JSON.stringify(one.to)}` }));
  place.replaceChildren(make("h2", { textContent: `v${from} → v${to}` }), make("ul", {}, ...others), make("div", { className: "scroll", tabIndex: 0 }, make("table", { className: "diff", ariaLabel: "Differences" }, make("tbody", {}, ...rows))));
}

// The longest common subsequence of lines; sources are short enough for the square table.
function sideBySide(left, right) {
  const length = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) for (let j = right.length - 1; j >= 0; j -= 1) length[i][j] = left[i] === right[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  const rows = [];
  for (let i = 0, j = 0; i < left.length || j < right.length;) {
    if (i < left.length && j < right.length && left[i] === right[j]) { rows.push(["same", i + 1, left[i], j + 1, right[j]]); i += 1; j += 1; }
    else if (j >= right.length || (i < left.length && length[i + 1][j] >= length[i][j + 1])) { rows.push(["removed", i + 1, left[i], null, ""]); i += 1; }
    else { rows.push(["added", null, "", j + 1, right[j]]); j += 1; }
  }
  return rows;
}

async function rollBack(version) {
  if (!confirm(`Make version ${version} live again?`)) return;
  try { await api(`${path()}/rollback`, { method: "POST", body: { version } }); location.reload(); } catch (error) { tell(error.message); }
}

async function tests(panel) {
  const { results } = await api(`${path()}/tests/`);
  const verdicts = make("div", { role: "status" });
  const rows = results.map((one) => [one.name, make("code", { textContent: JSON.stringify(one.arguments) }), one.expects, make("code", { textContent: JSON.stringify(one.expected) }),
    button("Remove", async () => { await api(`${path()}/tests/${one.id}`, { method: "DELETE" }).catch((error) => tell(error.message)); tests(panel); })]);
  const given = { name: field("Name", "input"), arguments: field("Arguments as JSON", "textarea", JSON.stringify(safeArguments())), expected: field("Expected result as JSON", "textarea") };
  const add = make("form", { className: "card form" }, make("h2", { textContent: "Add a test" }), ...Object.values(given).flat(), make("div", { className: "actions" }, make("button", { className: "primary", textContent: "Add" })));
  add.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await api(`${path()}/tests/`, { method: "POST", body: { name: given.name[1].value, arguments: JSON.parse(given.arguments[1].value || "{}"), expected: JSON.parse(given.expected[1].value || "null") } });
      tests(panel);
    } catch (error) { tell(error.message); }
  });
  const all = button("Run all against the draft", async () => {
    verdicts.replaceChildren(make("p", { className: "soft", textContent: "Running…" }));
    const answer = await api(`${path()}/tests/run`, { method: "POST", body: {} }).catch((error) => { tell(error.message); return null; });
    if (answer) verdicts.replaceChildren(make("p", { className: `note ${answer.failed ? "error" : "success"}`, textContent: `${answer.passed} passed, ${answer.failed} failed.` }), ...answer.results.filter((one) => !one.ok).map((one) => make("p", { className: "small", textContent: `${one.test}: ${one.reason}` })));
  }, "primary");
  panel.replaceChildren(make("div", { className: "stack" }, make("p", {}, all), verdicts, table(["Name", "Arguments", "Expects", "Expected", ""], rows, "No test yet. Publishing runs them all and stops when one fails."), add));
}

function safeArguments() { try { return readArguments(); } catch { return {}; } }

function field(words, tag, value = "") {
  const id = `new-${words.toLowerCase().replaceAll(" ", "-")}`;
  return [make("label", { htmlFor: id, textContent: words }), make(tag, { id, value, required: tag === "input", ...(tag === "textarea" ? { className: "code", rows: 2 } : {}) })];
}

async function executions(panel) {
  const { results } = await api(`${path()}/executions/?limit=50`);
  const rows = results.map((one) => [
    make("span", { className: `pill ${one.status === "ok" ? "ok" : "failed"}`, textContent: one.status }), time(one.started_at), one.version ? `v${one.version}` : "–",
    make("code", { textContent: JSON.stringify(one.arguments).slice(0, 120) }), make("code", { textContent: JSON.stringify(one.error ?? one.result).slice(0, 120) }), duration(one.wall_ms),
    make("span", { className: "row" }, one.run ? make("a", { href: `/runs/${one.run}/`, textContent: "run" }) : null,
      bench.dataset.editable === "yes" ? button("Create a test", async () => { try { await api(`${path()}/tests/`, { method: "POST", body: { execution: one.execution } }); tell("A test was created from this execution.", "success"); } catch (error) { tell(error.message); } }) : null),
  ]);
  panel.replaceChildren(table(["Outcome", "When", "Version", "Arguments", "Result", "Took", ""], rows, "No executions yet."));
}

async function replay(panel) {
  const place = make("div", { role: "status" });
  const go = button("Replay my last 20 inputs against the draft", async () => {
    place.replaceChildren(make("p", { className: "soft", textContent: "Running…" }));
    try {
      const answer = await api(`${path()}/replay`, { method: "POST", body: { limit: 20 } });
      const rows = answer.differing.map((one) => [make("code", { textContent: JSON.stringify(one.arguments) }), make("code", { textContent: JSON.stringify(one.before.error ?? one.before.result) }), make("code", { textContent: JSON.stringify(one.after.error ?? one.after.result) }), one.reason]);
      place.replaceChildren(make("p", { className: `note ${rows.length ? "warning" : "success"}`, textContent: `${answer.same} of ${answer.replayed} give the same.` }), ...(rows.length ? [table(["Arguments", "Before", "Now", "Why"], rows, "")] : []));
    } catch (error) { place.replaceChildren(make("p", { className: "note error", textContent: error.message })); }
  }, "primary");
  panel.replaceChildren(make("div", { className: "stack" }, make("p", { className: "soft", textContent: "Runs recent inputs against the current draft, and lists what would have been different." }), make("p", {}, go), place));
}

const LOADERS = { versions, tests, executions, replay };
document.addEventListener("shown", (event) => load(event.target.id));
function load(name) { LOADERS[name]?.(document.getElementById(`panel-${name}`)).catch((error) => tell(error.message)); }
if (location.hash) load(location.hash.slice(1));
check();
