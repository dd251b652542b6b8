// The form of a new agent or chain, or of a copy of one.
import { api, tell } from "./page.js";
import { atField } from "./problems.js";
import { sitePath } from "./site.js";

/** What a copy takes along: all that a person can write, except for the name and the team. */
const LEFT = new Set(["name", "display_name", "owner", "team", "published_version", "created_at", "updated_at", "enabled"]);

/** @param {"agents" | "chains"} kind in the API and in the addresses of pages @param {HTMLElement | null} element its form, if it is on the page */
export function creation(kind, element) {
  if (!(element instanceof HTMLFormElement)) return;
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    for (const place of /** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll("[data-wrong]"))) place.hidden = true;
    for (const input of element.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
    const typed = Object.fromEntries([...new FormData(element)].map(([name, value]) => [name, String(value).trim()]));
    if (!typed.name && typed.display_name) delete typed.name; // the server makes it from what people read
    try {
      const copied = element.dataset.from ? await contents(kind, element.dataset.from) : {};
      const made = await api(`${kind}/`, { method: "POST", body: { ...copied, ...typed } });
      location.assign(sitePath(`/${kind}/${made.name}/`));
    } catch (error) { showProblem(element, error); }
  });
}

/** @param {string} kind @param {string} from */
async function contents(kind, from) {
  const row = await api(`${kind}/${encodeURIComponent(from)}`);
  return Object.fromEntries(Object.entries(row).filter(([name]) => !LEFT.has(name)));
}

/** @param {HTMLFormElement} form @param {import("./page.js").Problem} error */
function showProblem(form, error) {
  const name = error.code === "name_taken" ? "name" : error.details?.[0]?.field ?? "";
  const place = /** @type {HTMLElement | null} */ (form.querySelector(`[data-wrong="${CSS.escape(name.split(".")[0])}"]`));
  if (!place) { tell(error.message); return; }
  place.hidden = false;
  place.textContent = atField(error, name);
  const input = /** @type {HTMLElement | null} */ (form.querySelector(`[name="${CSS.escape(name)}"]`));
  input?.setAttribute("aria-invalid", "true");
  input?.focus();
}
