// The list of agents (archive, restore) and the form of a new agent or a copy.
import { api, tell } from "./page.js";

/** What a copy takes along: all that a person can write, except for the name and the team. */
const LEFT = new Set(["name", "owner", "team", "published_version", "created_at", "updated_at", "enabled"]);

document.addEventListener("click", async (event) => {
  const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-archive]"));
  if (!button) return;
  const { archive: name = "", enabled } = button.dataset;
  if (enabled === "no" && !confirm(`Archive “${name}”? It answers no more messages until it is restored. Its runs are kept.`)) return;
  try {
    await api(`agents/${encodeURIComponent(name)}`, { method: "PATCH", body: { enabled: enabled === "yes" } });
    location.reload();
  } catch (error) { tell(/** @type {Error} */ (error).message); }
});

const form = /** @type {HTMLFormElement | null} */ (document.getElementById("new-agent"));

/** @param {Record<string, any>} error */
function showProblem(error) {
  const name = error.code === "name_taken" ? "name" : (error.details ?? [])[0]?.field ?? "";
  const place = /** @type {HTMLElement | null} */ (form?.querySelector(`[data-wrong="${CSS.escape(name.split(".")[0])}"]`));
  if (!place) { tell(error.message); return; }
  place.hidden = false;
  place.textContent = error.message;
  /** @type {HTMLElement | null} */ (form?.querySelector(`[name="${name}"]`))?.setAttribute("aria-invalid", "true");
  /** @type {HTMLElement | null} */ (form?.querySelector(`[name="${name}"]`))?.focus();
}

/** @param {string} from */
async function contents(from) {
  const row = await api(`agents/${encodeURIComponent(from)}`);
  return Object.fromEntries(Object.entries(row).filter(([name]) => !LEFT.has(name)));
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-wrong]"))) place.hidden = true;
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  const typed = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  try {
    const copied = form.dataset.from ? await contents(form.dataset.from) : {};
    const made = await api("agents/", { method: "POST", body: { ...copied, ...typed } });
    location.assign(`/agents/${made.name}/`);
  } catch (error) { showProblem(/** @type {Record<string, any>} */ (error)); }
});
