// Logins, servers and their tools: each button is one call of the API.
import { api, make, tell } from "./page.js";
import { sitePath } from "./site.js";
import { gettext, word } from "./texts.js";

/** @param {string} selector @returns {NodeListOf<HTMLFormElement>} */
const forms = (selector) => document.querySelectorAll(selector);

const FORMS = "[data-server], [data-authorize], [data-change], [data-import]";
for (const form of forms(FORMS)) for (const button of form.querySelectorAll("button")) button.disabled = false;

for (const form of forms("[data-server]")) {
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    const made = await api("connections/", { method: "POST", body: Object.fromEntries([...values].filter(([, value]) => value)) });
    location.href = sitePath(`/connections/${made.id}/`);
  }));
}

for (const form of forms("[data-authorize]")) {
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    const { url } = await api(`connections/${form.dataset.authorize}/authorize`, { method: "POST", body: { access: values.getAll("access") } });
    location.href = url;
  }));
}

for (const form of forms("[data-change]")) {
  const before = Object.fromEntries(new FormData(form));
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    const body = Object.fromEntries([...values].filter(([name, value]) => value !== before[name]));
    await api(`connections/${form.dataset.change}`, { method: "PATCH", body });
    location.reload();
  }));
}

// An import is shown before it is stored: first the operations with their effects, then those that are ticked.
/** @type {Record<string, any>} */
let wanted = {};
for (const form of forms("[data-import]")) {
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    wanted = Object.fromEntries([...values].filter(([, value]) => value));
    showOperations(await api(`connections/${form.dataset.import}/import/preview`, { method: "POST", body: wanted }));
  }));
}

/** @param {{base_url: string, usable: number, total: number, operations: Operation[]}} preview */
function showOperations({ base_url: address, usable, total, operations }) {
  const form = forms("[data-chosen]")[0];
  const values = { usable, total, address };
  /** @type {Element} */ (form.querySelector("[data-target]")).textContent = usable === total
    ? gettext("%(usable)s of %(total)s operations can become tools that call %(address)s.", values)
    : gettext("%(usable)s of %(total)s operations can become tools that call %(address)s. The others say why they cannot.", values);
  /** @type {Element} */ (form.querySelector("[data-operations]")).replaceChildren(...operations.map(operationRow));
  form.hidden = false;
  form.scrollIntoView({ block: "nearest" });
}

/** @typedef {{name: string, description: string, effect: string, state: string, reason: string}} Operation */
/** @param {Operation} operation */
function operationRow({ name, description, effect, state, reason }) {
  const tick = make("input", { type: "checkbox", name: "operation", value: name, checked: state !== "refused", disabled: state === "refused", ariaLabel: name });
  const what = make("td", {}, make("strong", { textContent: name }), make("p", { className: "small soft", textContent: reason || description }));
  return make("tr", {}, make("td", {}, tick), what, make("td", {}, state === "new" ? effectOf(name, effect) : word(effect)), make("td", {}, make("span", { className: `pill ${state === "known" ? "ok" : state}`, textContent: word(state) })));
}

/** The effect of a new operation can be chosen before it is stored. @param {string} name @param {string} suggested */
function effectOf(name, suggested) {
  const template = /** @type {HTMLTemplateElement} */ (document.querySelector("[data-effects]"));
  const select = /** @type {HTMLSelectElement} */ (template.content.firstElementChild?.cloneNode(true));
  select.ariaLabel = `${template.dataset.effects} ${name}`;
  select.dataset.operation = name;
  select.dataset.suggested = select.value = suggested;
  return select;
}

/** What was chosen for ticked operations instead of the suggestion. @param {HTMLFormElement} form @param {FormData} values */
function chosenEffects(form, values) {
  const ticked = new Set(values.getAll("operation"));
  const selects = /** @type {HTMLSelectElement[]} */ ([...form.querySelectorAll("select[data-operation]")]);
  const changed = selects.filter((one) => one.value !== one.dataset.suggested && ticked.has(one.dataset.operation ?? ""));
  return Object.fromEntries(changed.map((one) => [one.dataset.operation, one.value]));
}

for (const form of forms("[data-chosen]")) {
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    const known = [...form.querySelectorAll("input")];
    const all = known.every((one) => one.checked || one.disabled);
    await api(`connections/${form.dataset.chosen}/import`, { method: "POST", body: { ...wanted, effects: chosenEffects(form, values), ...(all ? {} : { operations: values.getAll("operation") }) } });
    location.reload();
  }));
}

/** @param {Event} event @param {HTMLFormElement} form @param {(values: FormData) => Promise<void>} act */
async function send(event, form, act) {
  event.preventDefault();
  const wrong = /** @type {HTMLElement} */ (form.querySelector("[data-wrong]"));
  wrong.hidden = true;
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  try { await act(new FormData(form)); } catch (error) {
    wrong.textContent = error.message;
    wrong.hidden = false;
    const input = /** @type {HTMLElement | null} */ (form.querySelector(`[name="${CSS.escape(error.details?.[0]?.field ?? "")}"]`));
    input?.setAttribute("aria-invalid", "true");
    input?.focus();
  }
}

document.addEventListener("click", async (event) => {
  const button = /** @type {HTMLButtonElement | null} */ (/** @type {Element} */ (event.target).closest("[data-call]"));
  if (!button || (button.dataset.ask && !confirm(button.dataset.ask))) return;
  button.disabled = true;
  try {
    const { call = "", method, sha256, then } = button.dataset;
    const effect = button.closest("tr")?.querySelector("select")?.value;
    await api(call, { method, body: method === "POST" ? (sha256 ? { sha256, effect } : {}) : undefined });
    if (then) location.href = then;
    else location.reload();
  } catch (error) { tell(error.message); }
  button.disabled = false;
});
