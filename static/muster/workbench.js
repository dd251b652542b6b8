// The function workbench: checks while typing, tries, saves, publishes; the other tabs are in functiontabs.js.
import { showChanges } from "./comparison.js";
import { FunctionSettings } from "./functionsettings.js";
import { FunctionTabs, formatDuration } from "./functiontabs.js";
import { keptTo } from "./namesakes.js";
import { api, make, tell } from "./page.js";
import { atField } from "./problems.js";
import { SchemaForm } from "./schemaform.js";
import { fixed } from "./numbers.js";
import { sitePath } from "./site.js";
import { gettext, word } from "./texts.js";
import { guard } from "./unsaved.js";

/** @typedef {{line?: number, message?: string, hint?: string, code?: string}} Refusal */

const CHECK_MS = 500;
const RELOAD_MS = 600;

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

const bench = /** @type {HTMLElement} */ (byId("bench"));
const source = /** @type {HTMLTextAreaElement} */ (byId("source"));
const nameField = /** @type {HTMLInputElement} */ (byId("name"));
const form = new SchemaForm(byId("arguments"));
const asJson = /** @type {HTMLInputElement} */ (document.querySelector("[data-as-json]"));
const jsonArea = /** @type {HTMLTextAreaElement} */ (byId("arguments-json"));
const outcome = /** @type {HTMLElement} */ (byId("outcome"));
const dialog = /** @type {HTMLDialogElement | null} */ (byId("publish"));
const settings = new FunctionSettings(byId("source-form"));
const isEditable = bench.dataset.editable === "yes";

/** What would be lost: the source, its settings, and with whom it is shared. */
const readEdited = () => JSON.stringify([source.value, settings.read(), settings.sharing()]);
let storedText = readEdited();
let checkedText = "";
/** @type {string | null} the draft that was saved last */
let draftHash = null;

/** An address of the function below /api/v1/. @param {string} [rest] */
const pathOf = (rest = "") => keptTo(bench.dataset.query, `functions/${encodeURIComponent(bench.dataset.name ?? "")}${rest}`);

/** @param {string} name @param {string} text */
function showWrong(name, text) {
  const place = /** @type {HTMLElement | null} */ (document.querySelector(`[data-wrong="${name}"]`));
  if (place) {
    place.hidden = !text;
    place.textContent = text;
  } else if (text) {
    tell(text);
  }
}

// -- checking ---------------------------------------------------------------------------------------------------------

async function check() {
  const now = readEdited();
  if (now === checkedText) return;
  checkedText = now;
  if (!source.value.trim()) return;
  const body = { ...settings.whole(), source: source.value };
  const answer = await api("functions/validate", { method: "POST", body }).catch((error) => ({ valid: false, refusals: error.details }));
  // Something was typed meanwhile: the next check tells.
  if (now !== readEdited()) return;
  showRefusals(answer.refusals ?? []);
  if (answer.input_schema) form.show(answer.input_schema);
  byId("derived").textContent = describeSource(answer);
}

/** @param {any} answer of the check */
function describeSource(answer) {
  if (!answer.entry) return "";
  const flags = [];
  if (answer.is_async) flags.push("async");
  if (answer.requires_context) flags.push(gettext("takes ctx"));
  if (answer.imports?.length) flags.push(gettext("imports %(imports)s", { imports: answer.imports.join(", ") }));
  const entry = gettext("Entry: %(entry)s%(flags)s.", { entry: answer.entry, flags: flags.length ? ` (${flags.join(", ")})` : "" });
  return [entry, answer.description].filter(Boolean).join(" ");
}

/** @param {Refusal[]} refusals */
function showRefusals(refusals) {
  const items = refusals.map((refusal) => {
    const line = refusal.line ? `${gettext("Line %(line)s.", { line: refusal.line })} ` : "";
    const hint = make("span", { className: "soft", textContent: refusal.hint ? ` ${refusal.hint}` : "" });
    return make("li", {}, make("strong", { textContent: line }), refusal.message ?? "", hint, settings.remedy(refusal, check));
  });
  byId("refusals").replaceChildren(...items);
  source.dispatchEvent(new CustomEvent("refusals", { detail: refusals.filter((refusal) => refusal.line) }));
}

// -- trying -----------------------------------------------------------------------------------------------------------

function readArguments() {
  if (!asJson.checked) return form.read();
  const value = JSON.parse(jsonArea.value || "{}");
  const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
  if (!isObject) throw new Error(gettext("Enter a JSON object: {…}."));
  return value;
}

/** @param {import("./page.js").Problem} error */
const hasLines = (error) => error.details?.some((detail) => detail.line);

async function run() {
  showWrong("arguments", "");
  let given;
  try {
    given = readArguments();
  } catch (error) {
    showWrong("arguments", error.message);
    return;
  }
  outcome.hidden = false;
  outcome.replaceChildren(make("p", {}, make("span", { className: "pill running", textContent: gettext("running") })));
  try {
    showOutcome(await api("functions/try", { method: "POST", body: { ...settings.whole(), source: source.value, arguments: given } }));
  } catch (error) {
    outcome.hidden = true;
    if (hasLines(error)) showRefusals(error.details);
    showWrong("arguments", error.message);
  }
}

/** @param {Record<string, any>} answer of functions/try */
function showOutcome(answer) {
  const isGood = answer.status === "ok";
  const memory = `${Math.round(answer.peak_kb / 1024)} MB`;
  const facts = [formatDuration(answer.wall_ms), `${fixed(answer.cpu_ms, 0)} ms CPU`, memory, gettext("isolation %(isolation)s", { isolation: answer.isolation })];
  const pill = make("span", { className: `pill ${isGood ? "ok" : "failed"}`, textContent: word(answer.status) });
  const parts = /** @type {HTMLElement[]} */ ([make("p", { className: "row" }, pill, make("span", { className: "small soft", textContent: facts.join(" · ") }))]);
  if (answer.error) parts.push(makeLabel(gettext("Error")), makeText(describeError(answer.error)));
  else parts.push(makeLabel(gettext("Result")), makeText(answer.result));
  if (answer.printed) parts.push(makeLabel(gettext("Printed")), makeText(answer.printed));
  outcome.hidden = false;
  outcome.replaceChildren(...parts);
}

/** @param {{type: string, message: string, line?: number}} error */
function describeError(error) {
  const line = error.line ? `\n${gettext("line %(line)s", { line: error.line })}` : "";
  return `${error.type}: ${error.message}${line}`;
}

/** @param {string} words @returns {HTMLElement} */
const makeLabel = (words) => make("p", { className: "label small", textContent: words });

/** @param {any} value @returns {HTMLElement} */
function makeText(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return make("pre", { className: "json", tabIndex: 0, textContent: text });
}

// -- saving and publishing ----------------------------------------------------------------------------------------------

/** @returns {Promise<boolean>} whether the server has what the page shows */
async function save() {
  const isNew = !bench.dataset.name;
  const body = /** @type {Record<string, any>} */ ({ ...settings.read(), ...settings.sharing(), source: source.value });
  const name = nameField.value.trim();
  // Without a technical name the server makes one from the name that people read.
  if (isNew && (name || !body.display_name)) body.name = name;
  const sent = readEdited();
  showWrong("name", "");
  showWrong("source", "");
  try {
    const saved = await api(isNew ? "functions/" : pathOf(), { method: isNew ? "POST" : "PATCH", body });
    draftHash = saved.draft_sha256;
    storedText = sent;
    showRefusals([]);
    tell(gettext("The draft is saved."), "success");
    if (isNew) rememberName(saved.name);
    return true;
  } catch (error) {
    if (hasLines(error)) showRefusals(error.details);
    const isAboutName = error.code === "name_taken" || error.details.some((/** @type {Record<string, any>} */ detail) => detail.field === "name");
    const field = isNew && isAboutName ? "name" : "source";
    showWrong(field, atField(error, field));
    return false;
  }
}

/** @param {string} name that the new function has from now on */
function rememberName(name) {
  history.replaceState(null, "", sitePath(`/functions/${name}/`));
  bench.dataset.name = name;
  nameField.value = name;
  nameField.readOnly = true;
}

/** Saves what was typed; a new function then gets its other tabs. */
async function saveAndShow() {
  const wasNew = !bench.dataset.name;
  if ((await save()) && wasNew) location.reload();
}

async function askToPublish() {
  if (!(await save()) || !dialog) return;
  try {
    byId("publish-title").textContent = gettext("Publish “%(name)s”", { name: bench.dataset.name ?? "" });
    dialog.querySelector("[data-difference]")?.replaceChildren(await describeDifference());
    dialog.showModal();
  } catch (error) {
    tell(gettext("Not published. %(problem)s", { problem: error.message }));
  }
}

async function describeDifference() {
  const row = await api(pathOf());
  const live = row.published_version;
  if (!live) return make("p", { className: "soft", textContent: gettext("This is the first version. Its tests run before it is live.") });
  const { changes } = await api(pathOf(`/diff?from=${live}&to=draft`));
  return showChanges(changes, labelOf);
}

/** What the form calls a field of the API, or a value that is chosen in it. @param {string} name @param {any} [value] @returns {string} */
function labelOf(name, value) {
  const control = /** @type {HTMLInputElement | HTMLSelectElement | null} */ (settings.form.elements.namedItem(name));
  if (value === undefined) return control?.labels?.[0]?.textContent?.trim() || name;
  const option = control instanceof HTMLSelectElement ? [...control.options].find((one) => one.value === value) : undefined;
  return option?.textContent ?? value;
}

/** What the person has seen, and nothing that was saved since. @param {string} note */
async function publish(note) {
  try {
    const made = await api(pathOf("/publish"), { method: "POST", body: { expected: draftHash, ...(note ? { note } : {}) } });
    tell(gettext("Version %(version)s is live.", { version: made.version }), "success");
    // The page of a version that is live: its tabs, and where it can be used.
    setTimeout(() => location.reload(), RELOAD_MS);
  } catch (error) {
    tell(gettext("Not published. %(problem)s", { problem: error.message }));
  }
}

// -- start --------------------------------------------------------------------------------------------------------------

function switchArguments() {
  jsonArea.hidden = !asJson.checked;
  form.element.hidden = asJson.checked;
  try {
    if (asJson.checked) jsonArea.value = JSON.stringify(form.read(), null, 2);
    else form.fill(JSON.parse(jsonArea.value || "{}"));
  } catch {
    // Half-typed values stay where they are.
  }
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!(event.ctrlKey || event.metaKey)) return;
  if (event.key === "Enter") {
    event.preventDefault();
    run();
  }
  if (event.key === "s" && isEditable) {
    event.preventDefault();
    save();
  }
}

guard(() => isEditable && readEdited() !== storedText);
byId("try-form").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  run();
});
document.querySelector("[data-try]")?.addEventListener("click", run);
document.querySelector("[data-save]")?.addEventListener("click", saveAndShow);
document.querySelector("[data-to-use]")?.addEventListener("click", (event) => {
  event.preventDefault();
  byId("use").click();
});
document.querySelector("[data-publish]")?.addEventListener("click", askToPublish);
settings.form.addEventListener("submit", (event) => event.preventDefault());
asJson.addEventListener("change", switchArguments);
document.addEventListener("keydown", onKey, { capture: true });
dialog?.addEventListener("close", () => {
  if (dialog.returnValue === "publish") publish(byId("note").value.trim());
  dialog.returnValue = "";
});
new FunctionTabs({ pathOf, isEditable, labelOf, readArguments, name: bench.dataset.name ?? "" }).start();
for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("[data-run], [data-publish]"))) button.disabled = false;
// The editor writes into the text area without an event; looking twice a second costs nothing.
setInterval(check, CHECK_MS);
check();
