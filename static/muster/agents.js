// The list of agents (archive, restore) and the form of a new agent or a copy.
import { creation } from "./creation.js";
import { api, tell } from "./page.js";
import { gettext } from "./texts.js";

document.addEventListener("click", async (event) => {
  const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-archive]"));
  if (!button) return;
  const { archive: name = "", enabled } = button.dataset;
  if (enabled === "no" && !confirm(gettext("Archive “%(name)s”? It answers no more messages until it is restored. Its runs are kept.", { name }))) return;
  try {
    await api(`agents/${encodeURIComponent(name)}`, { method: "PATCH", body: { enabled: enabled === "yes" } });
    location.reload();
  } catch (error) { tell(/** @type {Error} */ (error).message); }
});

creation("agents", document.getElementById("new-agent"));
