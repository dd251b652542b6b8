// The agent's form: suggests the models that the chosen provider's server lists.
const name = document.querySelector("[data-models]");
const provider = document.getElementById("id_provider");

async function suggest() {
  const chosen = provider.selectedOptions[0];
  const list = document.getElementById(name.getAttribute("list")) || document.body.appendChild(Object.assign(document.createElement("datalist"), { id: name.getAttribute("list") }));
  list.replaceChildren();
  if (!chosen?.value) return;
  const answer = await fetch(`/api/v1/providers/${encodeURIComponent(chosen.text)}/models`, { headers: { Accept: "application/json" } });
  if (!answer.ok || provider.selectedOptions[0] !== chosen) return; // without a list the name is typed
  const { models, default_model: usual } = await answer.json();
  list.replaceChildren(...models.map((model) => Object.assign(document.createElement("option"), { value: model })));
  name.placeholder = usual;
}

if (name && provider) {
  provider.addEventListener("change", suggest);
  name.addEventListener("focus", suggest, { once: true });
}
