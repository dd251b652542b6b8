// The form of a new agent or chain, or of a copy of one.
import { api, tell } from "./page.js";
import { atField } from "./problems.js";
import { sitePath } from "./site.js";

/** What a copy takes along: all that a person can write, except for the name and the team. */
const NOT_COPIED = new Set(["name", "owner", "team", "published_version", "created_at", "updated_at", "enabled"]);

/** @param {"agents" | "chains"} kind in the API and in the addresses of pages @param {HTMLElement | null} form if it is on the page */
export function creation(kind, form) {
  if (!(form instanceof HTMLFormElement)) return;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearProblems(form);
    try {
      const { from, tool, mode } = form.dataset;
      const copied = from ? await loadCopy(kind, from) : {};
      const grants = tool ? { grants: [{ tool, mode }] } : {};
      const row = await api(`${kind}/`, { method: "POST", body: { ...copied, ...grants, ...readTyped(form) } });
      location.assign(sitePath(`/${kind}/${row.name}/`));
    } catch (error) {
      showProblem(form, error);
    }
  });
}

/** @param {HTMLFormElement} form */
function readTyped(form) {
  const typed = [...new FormData(form)].map(([name, value]) => [name, String(value).trim()]);
  return Object.fromEntries(typed);
}

/** @param {HTMLFormElement} form */
function clearProblems(form) {
  const places = /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-wrong]"));
  for (const place of places) place.hidden = true;
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
}

/** @param {string} kind @param {string} from */
async function loadCopy(kind, from) {
  const row = await api(`${kind}/${encodeURIComponent(from)}`);
  return Object.fromEntries(Object.entries(row).filter(([name]) => !NOT_COPIED.has(name)));
}

/** @param {HTMLFormElement} form @param {import("./page.js").Problem} error */
function showProblem(form, error) {
  const name = error.code === "name_taken" ? "name" : (error.details?.[0]?.field ?? "");
  const place = /** @type {HTMLElement | null} */ (form.querySelector(`[data-wrong="${CSS.escape(name.split(".")[0])}"]`));
  if (!place) {
    tell(error.message);
    return;
  }
  place.hidden = false;
  place.textContent = atField(error, name);
  const input = /** @type {HTMLElement | null} */ (form.querySelector(`[name="${CSS.escape(name)}"]`));
  input?.setAttribute("aria-invalid", "true");
  input?.focus();
}
