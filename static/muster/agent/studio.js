// The studio: one agent's form, saved with If-Match; publishing with what changed; its tools, versions, use, and a conversation.
import { api, make, tell } from "../page.js";
import { Fields, reveal } from "../fields.js";
import { Row, collisions, same } from "../row.js";
import { Budgets } from "./budgets.js";
import { Talk } from "./talk.js";
import { Knowledge } from "./knowledge.js";
import { Tools } from "./tools.js";
import { showCode, showFigures, showUsers } from "./use.js";
import { Versions, difference } from "./versions.js";
import { guard } from "../unsaved.js";
import { gettext } from "../texts.js";

/** @typedef {Record<string, any>} Values */
/** @typedef {Error & {status?: number, code?: string, details?: {field?: string, message?: string}[]}} Problem */

const root = /** @type {HTMLElement} */ (document.getElementById("studio"));
const name = root.dataset.name ?? "";
const path = `agents/${encodeURIComponent(name)}`;
const isEditable = root.dataset.editable === "yes";
const row = new Row(path);
const fields = new Fields(root);
const tools = new Tools(/** @type {HTMLElement} */ (document.getElementById("panel-tools")), () => { showState(); knowledge.draw(); });
const knowledge = new Knowledge(document.querySelector("[data-knowledge]"), tools);
const versions = new Versions(/** @type {HTMLElement} */ (document.getElementById("panel-versions")), row, isEditable, async () => { await row.load(); showState(); });
const state = /** @type {HTMLElement} */ (document.querySelector("[data-state]"));
const clash = /** @type {HTMLElement} */ (document.getElementById("clash"));
const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("publish"));
let isReady = false;

// -- what differs -------------------------------------------------------------------------------------------------------

/** The fields that differ from what the server has; throws for what cannot be read. @returns {Values} */
function changes() {
  const now = { ...fields.read(row.base), grants: tools.read() };
  return Object.fromEntries(Object.entries(now).filter(([key, value]) => !same(value, row.base[key])));
}

function isChanged() {
  if (!isReady || !isEditable) return false;
  try { return Object.keys(changes()).length > 0; } catch { return true; }
}

function showState() {
  if (!isReady) return;
  const live = row.base.published_version ? gettext("v%(number)s is live", { number: row.base.published_version }) : gettext("nothing is published");
  state.textContent = [live, row.base.enabled ? "" : "archived", isChanged() ? gettext("unsaved changes") : ""].filter(Boolean).join(" · ");
}

/** @param {Values} values */
async function fill(values) {
  fields.fill(values);
  await tools.fill(values.grants);
  showState();
}

// -- saving -------------------------------------------------------------------------------------------------------------

/** @returns {Promise<boolean>} whether the server has what the page shows */
async function save() {
  fields.clear();
  try {
    const changed = changes();
    if (!Object.keys(changed).length) { tell(gettext("Nothing has changed."), "success"); return true; }
    await row.save(changed);
    clash.hidden = true;
    fields.fill(row.base);
    if ("grants" in changed) await tools.fill(row.base.grants);
    tell(gettext("The draft is saved. Publish it to make it live."), "success");
    showState();
    return true;
  } catch (error) {
    const problem = /** @type {Problem} */ (error);
    if (problem.status === 412) await meet();
    else complain(problem, gettext("Not saved."));
    return false;
  }
}

/** Each problem at its field, the others in one line. @param {Problem} problem @param {string} words */
function complain(problem, words) {
  const details = problem.details ?? [];
  const rest = fields.point(details);
  if (!details.length || rest.length) tell(`${words} ${rest.length ? rest.join(" ") : problem.message}`);
  else tell(gettext("%(words)s See the marked field.", { words }));
}

// -- two people at once -------------------------------------------------------------------------------------------------

/** Somebody else saved first: take over what only they changed, and let the person choose where both did. */
async function meet() {
  const mine = changes();
  const before = row.base;
  const theirs = await row.load();
  const { adopted, both } = collisions(before, theirs, mine);
  await fill({ ...theirs, ...mine });
  const others = adopted.length ? [make("p", {}, gettext("Taken over, because you did not change it: %(names)s.", { names: adopted.map(fields.nameOf).join(", ") }))] : [];
  clash.replaceChildren(make("h2", { textContent: gettext("Somebody else changed this agent while you were editing") }), make("p", { textContent: gettext("Nothing of theirs was overwritten, and nothing of yours is lost. Check, then save again.") }), ...others, ...both.map((key) => choice(key, theirs[key], mine[key])));
  clash.hidden = false;
  clash.focus();
}

/** @param {string} key @param {any} theirs @param {any} mine */
function choice(key, theirs, mine) {
  const title = fields.nameOf(key);
  const words = (/** @type {any} */ value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
  const take = async (/** @type {any} */ value, /** @type {string} */ whose) => {
    await fill({ ...row.base, ...changes(), [key]: value });
    part.replaceChildren(make("p", { textContent: gettext("%(title)s: %(whose)s is in the form.", { title, whose }) }));
  };
  const buttons = make("div", { className: "row" },
    make("button", { type: "button", textContent: gettext("Keep mine"), ariaLabel: gettext("Keep mine: %(title)s", { title }), onclick: () => take(mine, gettext("your text")) }),
    make("button", { type: "button", textContent: gettext("Take theirs"), ariaLabel: gettext("Take theirs: %(title)s", { title }), onclick: () => take(theirs, gettext("their text")) }));
  const part = make("div", { className: "stack" }, make("h3", { textContent: title }), make("div", { className: "grid" }, labelled(gettext("Theirs"), words(theirs)), labelled(gettext("Yours"), words(mine))), buttons);
  return part;
}

/** @param {string} words @param {string} text */
const labelled = (words, text) => make("div", {}, make("p", { className: "small soft", textContent: words }), make("pre", { className: "json", tabIndex: 0, role: "region", ariaLabel: words, textContent: text }));

// -- publishing ---------------------------------------------------------------------------------------------------------

async function askToPublish() {
  if (isChanged() && !(await save())) return;
  const place = /** @type {HTMLElement} */ (dialog.querySelector("[data-difference]"));
  const live = row.base.published_version;
  try {
    place.replaceChildren(live ? difference((await api(`${path}/diff?from=${live}&to=draft`)).text) : make("p", { className: "soft", textContent: gettext("This is the first version.") }));
  } catch (error) { complain(/** @type {Problem} */ (error), gettext("Not published.")); return; }
  dialog.showModal();
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
    if (/** @type {Problem} */ (error).status === 412) return lookAgain();
    complain(/** @type {Problem} */ (error), gettext("Not published."));
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
  if (!enabled && !confirm(gettext("Archive this agent? It answers no more messages until it is restored. Its runs are kept."))) return;
  try {
    await row.save({ enabled });
    location.reload();
  } catch (error) { complain(/** @type {Problem} */ (error), gettext("Not changed.")); }
}

// -- models -------------------------------------------------------------------------------------------------------------

const provider = /** @type {HTMLSelectElement} */ (document.getElementById("f-provider"));
const model = /** @type {HTMLInputElement} */ (document.getElementById("f-model_name"));

async function suggestModels() {
  const chosen = provider.value;
  const help = /** @type {HTMLElement} */ (document.getElementById("f-model_name-help"));
  const list = /** @type {HTMLElement} */ (document.getElementById("models"));
  list.replaceChildren();
  try {
    const { models, default_model: usual } = await api(`providers/${encodeURIComponent(chosen)}/models`);
    if (provider.value !== chosen) return;
    list.replaceChildren(...models.map((/** @type {string} */ value) => make("option", { value })));
    help.textContent = [models.length ? gettext("%(number)s models to choose from; others can be typed.", { number: models.length }) : gettext("Any name can be typed."), usual ? gettext("Empty: %(usual)s.", { usual }) : ""].filter(Boolean).join(" ");
  } catch (error) { help.textContent = gettext("%(problem)s The name of a model can be typed.", { problem: /** @type {Error} */ (error).message }); }
}

// -- tabs, keys, start --------------------------------------------------------------------------------------------------

const at = (/** @type {string} */ where) => /** @type {HTMLElement} */ (document.querySelector(`[data-place="${where}"]`));
const LOADERS = /** @type {Record<string, () => any>} */ ({
  tools: () => Promise.all([tools.look(), knowledge.load()]),
  limits: () => new Budgets(at("budgets"), name, isEditable).show(),
  versions: () => versions.show(),
  use: () => Promise.all([showCode(at("code"), name), showFigures(at("figures"), path), showUsers(at("users"), path)]),
});
const isShown = (/** @type {string} */ tab) => document.getElementById(tab)?.getAttribute("aria-selected") === "true";
const load = (/** @type {string} */ tab) => Promise.resolve(LOADERS[tab]?.()).catch((/** @type {Error} */ error) => tell(error.message));

document.addEventListener("shown", (event) => load(/** @type {HTMLElement} */ (event.target).id));
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "s") { event.preventDefault(); if (isEditable) save(); }
}, { capture: true });
root.addEventListener("input", showState);
root.addEventListener("change", showState);
provider.addEventListener("change", suggestModels);
model.addEventListener("focus", suggestModels, { once: true });
document.querySelector("[data-save]")?.addEventListener("click", save);
document.querySelector("[data-publish]")?.addEventListener("click", askToPublish);
document.querySelector("[data-archive-this]")?.addEventListener("click", archive);
document.querySelector("[data-to-talk]")?.addEventListener("click", () => reveal(/** @type {HTMLElement} */ (document.getElementById("text"))));
dialog?.addEventListener("close", () => { if (dialog.returnValue === "publish") publish(/** @type {HTMLInputElement} */ (document.getElementById("note")).value.trim()); dialog.returnValue = ""; });
guard(isChanged);

await row.load().catch((/** @type {Error} */ error) => tell(error.message));
isReady = true;
await fill(row.base);
for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("[data-save], [data-publish], [data-archive-this]"))) button.disabled = false;
const talk = document.getElementById("try");
if (talk) new Talk(talk, path, async () => !isChanged() || save());
load([...document.querySelectorAll("[role=tab][aria-selected=true]")][0]?.id ?? "");
