// Logins, servers and their tools: each button is one call of the API.
import { api, make, tell } from "./page.js";
import { sitePath } from "./site.js";
import { gettext, word } from "./texts.js";

/** @typedef {{name: string, description: string, effect: string, state: string, reason: string}} Operation */
/** @typedef {{base_url: string, usable: number, total: number, operations: Operation[]}} Preview */

const FORMS = "[data-server], [data-authorize], [data-change], [data-import]";
// Without this script they would send nothing, so the page comes with disabled buttons.
for (const form of findForms(FORMS)) {
  for (const button of form.querySelectorAll("button")) button.disabled = false;
}

for (const form of findForms("[data-server]")) {
  onSubmit(form, async (values) => {
    const connection = await api("connections/", { method: "POST", body: keepFilled(values) });
    location.href = sitePath(`/connections/${connection.id}/`);
  });
}

for (const form of findForms("[data-authorize]")) {
  onSubmit(form, async (values) => {
    const body = { access: values.getAll("access") };
    const { url } = await api(`connections/${form.dataset.authorize}/authorize`, { method: "POST", body });
    location.href = url;
  });
}

for (const form of findForms("[data-change]")) {
  const before = Object.fromEntries(new FormData(form));
  onSubmit(form, async (values) => {
    const changed = [...values].filter(([name, value]) => value !== before[name]);
    await api(`connections/${form.dataset.change}`, { method: "PATCH", body: Object.fromEntries(changed) });
    location.reload();
  });
}

// An import is shown before it is stored: first the operations with their effects, then those that are ticked.
/** @type {Record<string, any>} what the preview was asked for; the import asks for the same */
let source = {};
for (const form of findForms("[data-import]")) {
  onSubmit(form, async (values) => {
    source = keepFilled(values);
    const path = `connections/${form.dataset.import}/import/preview`;
    showOperations(await api(path, { method: "POST", body: source }));
  });
}

for (const form of findForms("[data-chosen]")) {
  onSubmit(form, async (values) => {
    /** @type {Record<string, any>} */
    const body = { ...source, effects: readEffects(form, values) };
    const boxes = [...form.querySelectorAll("input")];
    // Without a list the server takes all that it can, however many that are.
    if (boxes.some((box) => !box.checked && !box.disabled)) body.operations = values.getAll("operation");
    await api(`connections/${form.dataset.chosen}/import`, { method: "POST", body });
    location.reload();
  });
}

/** @param {string} selector @returns {NodeListOf<HTMLFormElement>} */
function findForms(selector) {
  return document.querySelectorAll(selector);
}

/** The fields that were filled in. @param {FormData} values */
function keepFilled(values) {
  return Object.fromEntries([...values].filter(([, value]) => value));
}

/**
 * Does `act` when the form is sent. What the API refuses is shown in the form, at the field if it names one.
 * @param {HTMLFormElement} form @param {(values: FormData) => Promise<void>} act
 */
function onSubmit(form, act) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const note = findElement(form, "[data-wrong]");
    note.hidden = true;
    for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
    try {
      await act(new FormData(form));
    } catch (error) {
      note.textContent = error.message;
      note.hidden = false;
      const field = CSS.escape(error.details?.[0]?.field ?? "");
      const input = /** @type {HTMLElement | null} */ (form.querySelector(`[name="${field}"]`));
      input?.setAttribute("aria-invalid", "true");
      input?.focus();
    }
  });
}

/** A part that the template always has. @param {ParentNode} root @param {string} selector */
function findElement(root, selector) {
  return /** @type {HTMLElement} */ (root.querySelector(selector));
}

/** @param {Preview} preview */
function showOperations({ base_url: address, usable, total, operations }) {
  const form = findForms("[data-chosen]")[0];
  const values = { usable, total, address };
  const sentence = usable === total
    ? gettext("%(usable)s of %(total)s operations can become tools that call %(address)s.", values)
    : gettext("%(usable)s of %(total)s operations can become tools that call %(address)s. The others say why they cannot.", values);
  findElement(form, "[data-target]").textContent = sentence;
  findElement(form, "[data-operations]").replaceChildren(...operations.map(buildRow));
  form.hidden = false;
  form.scrollIntoView({ block: "nearest" });
}

/** One operation: a box, its name, its effect, and whether it is new. @param {Operation} operation */
function buildRow({ name, description, effect, state, reason }) {
  const isRefused = state === "refused";
  const properties = { type: "checkbox", name: "operation", value: name, ariaLabel: name };
  const box = make("input", { ...properties, checked: !isRefused, disabled: isRefused });
  const explanation = make("p", { className: "small soft", textContent: reason || description });
  const pill = make("span", { className: `pill ${state === "known" ? "ok" : state}`, textContent: word(state) });
  return make(
    "tr",
    {},
    make("td", {}, box),
    make("td", {}, make("strong", { textContent: name }), explanation),
    make("td", {}, state === "new" ? buildEffects(name, effect) : word(effect)),
    make("td", {}, pill),
  );
}

/** The effect of a new operation can be chosen before it is stored. @param {string} name @param {string} suggested */
function buildEffects(name, suggested) {
  const template = /** @type {HTMLTemplateElement} */ (document.querySelector("[data-effects]"));
  const select = /** @type {HTMLSelectElement} */ (template.content.firstElementChild?.cloneNode(true));
  select.ariaLabel = `${template.dataset.effects} ${name}`;
  select.dataset.operation = name;
  select.dataset.suggested = suggested;
  select.value = suggested;
  return select;
}

/**
 * What was chosen for ticked operations instead of the suggestion.
 * @param {HTMLFormElement} form @param {FormData} values
 */
function readEffects(form, values) {
  const ticked = new Set(values.getAll("operation"));
  /** @type {Record<string, string>} */
  const effects = {};
  for (const select of /** @type {NodeListOf<HTMLSelectElement>} */ (form.querySelectorAll("select[data-operation]"))) {
    const { operation = "", suggested } = select.dataset;
    if (select.value !== suggested && ticked.has(operation)) effects[operation] = select.value;
  }
  return effects;
}

/**
 * <button data-call="connections/…" data-method="POST" data-ask="Remove it?" data-then="/connections/">.
 * @param {HTMLButtonElement} button
 */
async function callApi(button) {
  const { call = "", method, sha256, then } = button.dataset;
  const effect = button.closest("tr")?.querySelector("select")?.value;
  // The hash names the description that the person has read: a tool that has changed since is refused.
  const content = sha256 ? { sha256, effect } : {};
  await api(call, { method, body: method === "POST" ? content : undefined });
  if (then) location.href = then;
  else location.reload();
}

document.addEventListener("click", async (event) => {
  const target = /** @type {Element} */ (event.target);
  const button = /** @type {HTMLButtonElement | null} */ (target.closest("[data-call]"));
  if (!button) return;
  if (button.dataset.ask && !confirm(button.dataset.ask)) return;
  button.disabled = true;
  try {
    await callApi(button);
  } catch (error) {
    tell(error.message);
  }
  button.disabled = false;
});
