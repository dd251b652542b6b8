// The form of a new chain, or of a copy.
import { api, tell } from "./page.js";

/** What a copy takes along: all that a person can write, except for the name and the team. */
const LEFT = new Set(["name", "owner", "team", "published_version", "created_at", "updated_at", "enabled"]);
const form = /** @type {HTMLFormElement | null} */ (document.getElementById("new-chain"));

/** @param {Record<string, any>} error */
function showProblem(error) {
  const name = error.code === "name_taken" ? "name" : (error.details ?? [])[0]?.field ?? "";
  const place = /** @type {HTMLElement | null} */ (form?.querySelector(`[data-wrong="${CSS.escape(name.split(".")[0])}"]`));
  if (!place) { tell(error.message); return; }
  place.hidden = false;
  place.textContent = error.message;
  const input = /** @type {HTMLElement | null} */ (form?.querySelector(`[name="${CSS.escape(name)}"]`));
  input?.setAttribute("aria-invalid", "true");
  input?.focus();
}

/** @param {string} from */
async function contents(from) {
  const row = await api(`chains/${encodeURIComponent(from)}`);
  return Object.fromEntries(Object.entries(row).filter(([name]) => !LEFT.has(name)));
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-wrong]"))) place.hidden = true;
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  const typed = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  try {
    const copied = form.dataset.from ? await contents(form.dataset.from) : {};
    const made = await api("chains/", { method: "POST", body: { ...copied, ...typed } });
    location.assign(`/chains/${made.name}/`);
  } catch (error) { showProblem(/** @type {Record<string, any>} */ (error)); }
});
