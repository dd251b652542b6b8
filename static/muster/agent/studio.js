// The studio: one agent's form, saved with If-Match; publishing with what changed; its tools, versions, use, and a conversation.
import { showChanges } from "../comparison.js";
import { Fields, reveal } from "../fields.js";
import { api, make, tell } from "../page.js";
import { Row, collisions, same } from "../row.js";
import { SchemaBuilder } from "../schemabuilder.js";
import { gettext } from "../texts.js";
import { guard } from "../unsaved.js";
import { Budgets } from "./budgets.js";
import { Knowledge, Memory } from "./knowledge.js";
import { Talk } from "./talk.js";
import { Tools } from "./tools.js";
import { showCode, showFigures, showUsers } from "./use.js";
import { Versions } from "./versions.js";

/** @typedef {Record<string, any>} Values */
/** @typedef {Error & {status?: number, code?: string, details?: {field?: string, message?: string}[]}} Problem */

const byId = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));

const root = /** @type {HTMLElement} */ (byId("studio"));
const name = root.dataset.name ?? "";
const path = `agents/${encodeURIComponent(name)}`;
const isEditable = root.dataset.editable === "yes";
const row = new Row(path);
const fields = new Fields(root);
const tools = new Tools(byId("panel-tools"), () => {
  showState();
  knowledge.draw();
});
const knowledge = new Knowledge(document.querySelector("[data-knowledge]"), tools);
const memory = new Memory(byId("memory-on"), byId("f-memory"), tools);
tools.isElsewhere = (tool) => knowledge.hasRowFor(tool) || memory.hasRowFor(tool);
const versions = new Versions(byId("panel-versions"), row, fields.nameOf, isEditable, reloadState);
const state = /** @type {HTMLElement} */ (document.querySelector("[data-state]"));
const clash = /** @type {HTMLElement} */ (byId("clash"));
const dialog = /** @type {HTMLDialogElement} */ (byId("publish"));
const builders = makeBuilders();
let isReady = false;

/** The tables over the schemas. */
function makeBuilders() {
  const places = /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-schema-for]"));
  return [...places].map((place) => {
    const text = byId(place.dataset.schemaFor ?? "");
    const label = place.getAttribute("aria-label") ?? "";
    return new SchemaBuilder(place, text, { label, empty: gettext("No field."), isEditable });
  });
}

// -- what differs -------------------------------------------------------------------------------------------------------

/** The fields that differ from what the server has; throws for what cannot be read. @returns {Values} */
function changes() {
  const now = { ...fields.read(row.base), grants: tools.read() };
  return Object.fromEntries(Object.entries(now).filter(([key, value]) => !same(value, row.base[key])));
}

function isChanged() {
  if (!isReady || !isEditable) return false;
  try {
    return Object.keys(changes()).length > 0;
  } catch {
    return true;
  }
}

function showState() {
  if (!isReady) return;
  const live = row.base.published_version;
  const words = [live ? gettext("v%(number)s is live", { number: live }) : gettext("nothing is published")];
  if (!row.base.enabled) words.push(gettext("archived"));
  if (isChanged()) words.push(gettext("unsaved changes"));
  state.textContent = words.join(" · ");
}

async function reloadState() {
  await row.load();
  showState();
}

/** @param {Values} values */
async function fill(values) {
  fillFields(values);
  await tools.fill(values.grants);
  showState();
}

/** @param {Values} values */
function fillFields(values) {
  fields.fill(values);
  for (const builder of builders) builder.read();
  memory.read();
}

// -- saving -------------------------------------------------------------------------------------------------------------

/** @returns {Promise<boolean>} whether the server has what the page shows */
async function save() {
  fields.clear();
  try {
    const changed = changes();
    if (!Object.keys(changed).length) {
      tell(gettext("Nothing has changed."), "success");
      return true;
    }
    await row.save(changed);
    clash.hidden = true;
    fillFields(row.base);
    if ("grants" in changed) await tools.fill(row.base.grants);
    tell(gettext("The draft is saved. Publish it to make it live."), "success");
    showState();
    return true;
  } catch (error) {
    const problem = /** @type {Problem} */ (error);
    if (problem.status === 412) await resolveClash();
    else complain(problem, gettext("Not saved."));
    return false;
  }
}

/** Each problem at its field, the others in one line. @param {Problem} problem @param {string} words */
function complain(problem, words) {
  const details = problem.details ?? [];
  const rest = fields.point(details);
  if (details.length && !rest.length) {
    tell(gettext("%(words)s See the marked field.", { words }));
    return;
  }
  tell(`${words} ${rest.length ? rest.join(" ") : problem.message}`);
}

// -- two people at once -------------------------------------------------------------------------------------------------

/** Somebody else saved first: take over what only they changed, and let the person choose where both did. */
async function resolveClash() {
  const mine = changes();
  const before = row.base;
  const theirs = await row.load();
  const { adopted, both } = collisions(before, theirs, mine);
  await fill({ ...theirs, ...mine });
  const parts = [
    make("h2", { textContent: gettext("Somebody else changed this agent while you were editing") }),
    make("p", { textContent: gettext("Nothing of theirs was overwritten, and nothing of yours is lost. Check, then save again.") }),
  ];
  const names = adopted.map((key) => fields.nameOf(key)).join(", ");
  if (names) parts.push(make("p", { textContent: gettext("Taken over, because you did not change it: %(names)s.", { names }) }));
  for (const key of both) parts.push(makeChoice(key, theirs[key], mine[key]));
  clash.replaceChildren(...parts);
  clash.hidden = false;
  clash.focus();
}

/** @param {string} key @param {any} theirs @param {any} mine */
function makeChoice(key, theirs, mine) {
  const title = fields.nameOf(key);
  const part = make("div", { className: "stack" });
  const take = async (/** @type {any} */ value, /** @type {string} */ whose) => {
    await fill({ ...row.base, ...changes(), [key]: value });
    part.replaceChildren(make("p", { textContent: gettext("%(title)s: %(whose)s is in the form.", { title, whose }) }));
  };
  const keep = make("button", { type: "button", textContent: gettext("Keep mine"), ariaLabel: gettext("Keep mine: %(title)s", { title }), onclick: () => take(mine, gettext("your text")) });
  const adopt = make("button", { type: "button", textContent: gettext("Take theirs"), ariaLabel: gettext("Take theirs: %(title)s", { title }), onclick: () => take(theirs, gettext("their text")) });
  const sides = make("div", { className: "grid" }, makeSide(gettext("Theirs"), theirs), makeSide(gettext("Yours"), mine));
  part.append(make("h3", { textContent: title }), sides, make("div", { className: "row" }, keep, adopt));
  return part;
}

/** @param {string} whose @param {any} value */
function makeSide(whose, value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return make("div", {}, make("p", { className: "small soft", textContent: whose }), make("pre", { className: "json", tabIndex: 0, role: "region", ariaLabel: whose, textContent: text }));
}

// -- publishing ---------------------------------------------------------------------------------------------------------

async function askToPublish() {
  if (isChanged() && !(await save())) return;
  const place = /** @type {HTMLElement} */ (dialog.querySelector("[data-difference]"));
  try {
    place.replaceChildren(await describeDifference());
  } catch (error) {
    complain(/** @type {Problem} */ (error), gettext("Not published."));
    return;
  }
  dialog.showModal();
}

async function describeDifference() {
  const live = row.base.published_version;
  if (!live) return make("p", { className: "soft", textContent: gettext("This is the first version.") });
  const answer = await api(`${path}/diff?from=${live}&to=draft`);
  return showChanges(answer.changes, fields.nameOf);
}

/** @param {string} note */
async function publish(note) {
  try {
    const { version } = await api(`${path}/publish`, { method: "POST", body: { note }, headers: { "If-Match": row.etag } });
    await row.load();
    for (const option of document.querySelectorAll("[data-with] option[hidden]")) option.removeAttribute("hidden");
    tell(gettext("Version %(version)s is live.", { version }), "success");
    showState();
    if (isShown("versions")) versions.show();
  } catch (error) {
    const problem = /** @type {Problem} */ (error);
    if (problem.status === 412) await lookAgain();
    else complain(problem, gettext("Not published."));
  }
}

/** Somebody saved the draft after this person had looked at its differences. */
async function lookAgain() {
  await fill(await row.load());
  tell(gettext("Not published: somebody changed the draft meanwhile. Look at the differences again."));
  await askToPublish();
}

async function archive() {
  const enabled = !row.base.enabled;
  const question = gettext("Archive this agent? It answers no more messages until it is restored. Its runs are kept.");
  if (!enabled && !confirm(question)) return;
  try {
    await row.save({ enabled });
    location.reload();
  } catch (error) {
    complain(/** @type {Problem} */ (error), gettext("Not changed."));
  }
}

// -- models -------------------------------------------------------------------------------------------------------------

const provider = /** @type {HTMLSelectElement} */ (byId("f-provider"));
const model = /** @type {HTMLInputElement} */ (byId("f-model_name"));

async function suggestModels() {
  const chosen = provider.value;
  const help = /** @type {HTMLElement} */ (byId("f-model_name-help"));
  const list = /** @type {HTMLElement} */ (byId("models"));
  list.replaceChildren();
  try {
    const { models, default_model: usual } = await api(`providers/${encodeURIComponent(chosen)}/models`);
    if (provider.value !== chosen) return;
    list.replaceChildren(...models.map((/** @type {string} */ value) => make("option", { value })));
    const count = gettext("%(number)s models to choose from; others can be typed.", { number: models.length });
    const words = [models.length ? count : gettext("Any name can be typed.")];
    if (usual) words.push(gettext("Empty: %(usual)s.", { usual }));
    help.textContent = words.join(" ");
  } catch (error) {
    help.textContent = gettext("%(problem)s The name of a model can be typed.", { problem: /** @type {Error} */ (error).message });
  }
}

// -- tabs, keys, start --------------------------------------------------------------------------------------------------

const place = (/** @type {string} */ where) => /** @type {HTMLElement} */ (document.querySelector(`[data-place="${where}"]`));
const LOADERS = /** @type {Record<string, () => any>} */ ({
  tools: () => Promise.all([tools.look(), knowledge.load()]),
  knowledge: () => knowledge.load(),
  limits: () => new Budgets(place("budgets"), name, isEditable).show(),
  versions: () => versions.show(),
  use: () => Promise.all([showCode(place("code"), name), showFigures(place("figures"), path), showUsers(place("users"), path)]),
});
const isShown = (/** @type {string} */ tab) => byId(tab)?.getAttribute("aria-selected") === "true";

/** @param {string} tab */
function load(tab) {
  const loading = Promise.resolve(LOADERS[tab]?.());
  loading.catch((/** @type {Error} */ error) => tell(error.message));
}

document.addEventListener("shown", (event) => load(/** @type {HTMLElement} */ (event.target).id));
document.addEventListener("keydown", (event) => {
  const isSave = (event.ctrlKey || event.metaKey) && event.key === "s";
  if (!isSave) return;
  event.preventDefault();
  if (isEditable) save();
}, { capture: true });
root.addEventListener("input", showState);
root.addEventListener("change", showState);
provider.addEventListener("change", suggestModels);
model.addEventListener("focus", suggestModels, { once: true });
document.querySelector("[data-save]")?.addEventListener("click", save);
document.querySelector("[data-publish]")?.addEventListener("click", askToPublish);
document.querySelector("[data-archive-this]")?.addEventListener("click", archive);
document.querySelector("[data-to-talk]")?.addEventListener("click", () => reveal(byId("text")));
dialog?.addEventListener("close", () => {
  if (dialog.returnValue === "publish") publish(byId("note").value.trim());
  dialog.returnValue = "";
});
guard(isChanged);

await row.load().catch((/** @type {Error} */ error) => tell(error.message));
isReady = true;
await fill(row.base);
const waiting = /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("[data-save], [data-publish], [data-archive-this]"));
for (const button of waiting) button.disabled = false;
const talk = byId("try");
if (talk) new Talk(talk, path, async () => !isChanged() || save());
load(document.querySelector("[role=tab][aria-selected=true]")?.id ?? "");
