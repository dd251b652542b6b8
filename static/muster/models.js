// The agent's form: suggests the models that the chosen provider's server lists.
import { sitePath } from "./site.js";

const name = /** @type {HTMLInputElement | null} */ (document.querySelector("[data-models]"));
const provider = /** @type {HTMLSelectElement | null} */ (document.getElementById("id_provider"));

/** @param {HTMLInputElement} name @param {HTMLSelectElement} provider */
async function suggest(name, provider) {
  const chosen = provider.selectedOptions[0];
  const id = name.getAttribute("list") ?? "";
  const list = document.getElementById(id) ?? document.body.appendChild(Object.assign(document.createElement("datalist"), { id }));
  list.replaceChildren();
  if (!chosen?.value) return;
  const answer = await fetch(sitePath(`/api/v1/providers/${encodeURIComponent(chosen.text)}/models`), { headers: { Accept: "application/json" } });
  if (!answer.ok || provider.selectedOptions[0] !== chosen) return; // without a list the name is typed
  const { models, default_model: usual } = await answer.json();
  list.replaceChildren(...models.map((/** @type {string} */ model) => Object.assign(document.createElement("option"), { value: model })));
  name.placeholder = usual;
}

if (name && provider) {
  const again = () => suggest(name, provider);
  provider.addEventListener("change", again);
  name.addEventListener("focus", again, { once: true });
}
