// Logins, servers and their tools: each button is one call of the API.
import { api, make, tell } from "./page.js";

const FORMS = "[data-server], [data-authorize], [data-change], [data-import]";
for (const button of document.querySelectorAll(FORMS.split(", ").map((one) => `${one} button`).join(", "))) button.disabled = false;

for (const form of document.querySelectorAll("[data-server]")) {
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    const made = await api("connections/", { method: "POST", body: Object.fromEntries([...values].filter(([, value]) => value)) });
    location.href = `/connections/${made.id}/`;
  }));
}

for (const form of document.querySelectorAll("[data-authorize]")) {
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    const { url } = await api(`connections/${form.dataset.authorize}/authorize`, { method: "POST", body: { access: values.getAll("access") } });
    location.href = url;
  }));
}

for (const form of document.querySelectorAll("[data-change]")) {
  const before = Object.fromEntries(new FormData(form));
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    const body = Object.fromEntries([...values].filter(([name, value]) => value !== before[name]));
    await api(`connections/${form.dataset.change}`, { method: "PATCH", body });
    location.reload();
  }));
}

// An import is shown before it is stored: first the operations with their effects, then those that are ticked.
let wanted = {};
for (const form of document.querySelectorAll("[data-import]")) {
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    wanted = Object.fromEntries([...values].filter(([, value]) => value));
    showOperations(await api(`connections/${form.dataset.import}/import/preview`, { method: "POST", body: wanted }));
  }));
}

function showOperations({ base_url: address, operations }) {
  const form = document.querySelector("[data-chosen]");
  form.querySelector("[data-target]").textContent = `${operations.length} · ${address}`;
  form.querySelector("[data-operations]").replaceChildren(...operations.map(operationRow));
  form.hidden = false;
  form.scrollIntoView({ block: "nearest" });
}

function operationRow({ name, description, effect, state, reason }) {
  const tick = make("input", { type: "checkbox", name: "operation", value: name, checked: state !== "refused", disabled: state === "refused", ariaLabel: name });
  const what = make("td", {}, make("strong", { textContent: name }), make("p", { className: "small soft", textContent: reason || description }));
  return make("tr", {}, make("td", {}, tick), what, make("td", { textContent: effect.replace("_", " ") }), make("td", {}, make("span", { className: `pill ${state === "known" ? "ok" : state}`, textContent: state })));
}

for (const form of document.querySelectorAll("[data-chosen]")) {
  form.addEventListener("submit", (event) => send(event, form, async (values) => {
    const known = [...form.querySelectorAll("input")];
    const all = known.every((one) => one.checked || one.disabled);
    await api(`connections/${form.dataset.chosen}/import`, { method: "POST", body: { ...wanted, ...(all ? {} : { operations: values.getAll("operation") }) } });
    location.reload();
  }));
}

async function send(event, form, act) {
  event.preventDefault();
  const wrong = form.querySelector("[data-wrong]");
  wrong.hidden = true;
  try { await act(new FormData(form)); } catch (error) { wrong.textContent = error.message; wrong.hidden = false; }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-call]");
  if (!button || (button.dataset.ask && !confirm(button.dataset.ask))) return;
  button.disabled = true;
  try {
    const { call, method, sha256, then } = button.dataset;
    const effect = button.closest("tr")?.querySelector("select")?.value;
    await api(call, { method, body: method === "POST" ? (sha256 ? { sha256, effect } : {}) : undefined });
    if (then) location.href = then;
    else location.reload();
  } catch (error) { tell(error.message); }
  button.disabled = false;
});
