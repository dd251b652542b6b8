// The form of a new agent or chain, or of a copy of one.
import { api, tell } from "./page.js";
import { atField } from "./problems.js";
import { sitePath } from "./site.js";

// A copy takes along all that a person can write, except for the names and the team.
const NOT_COPIED = new Set([
  "name",
  "display_name",
  "owner",
  "team",
  "published_version",
  "created_at",
  "updated_at",
  "enabled",
]);

/**
 * Makes the form work; `data-from` names what it is a copy of, `data-tool` a tool that a new agent gets.
 * @param {"agents" | "chains"} kind in the API and in the addresses of pages
 * @param {HTMLElement | null} element its form, if it is on the page
 */
export function creation(kind, element) {
  if (!(element instanceof HTMLFormElement)) return;
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    hideProblems(element);
    const { from, tool, mode } = element.dataset;
    try {
      const original = from ? await loadContents(kind, from) : {};
      const grants = tool ? { grants: [{ tool, mode }] } : {};
      const body = { ...original, ...grants, ...readForm(element) };
      const created = await api(`${kind}/`, { method: "POST", body });
      location.assign(sitePath(`/${kind}/${created.name}/`));
    } catch (error) {
      showProblem(element, error);
    }
  });
}

/** @param {HTMLFormElement} form */
function readForm(form) {
  const pairs = [...new FormData(form)].map(([name, value]) => [name, String(value).trim()]);
  const typed = Object.fromEntries(pairs);
  // The server makes the technical name from the one that people read.
  if (!typed.name && typed.display_name) delete typed.name;
  return typed;
}

/** What a copy begins with. @param {string} kind @param {string} name of the original */
async function loadContents(kind, name) {
  const row = await api(`${kind}/${encodeURIComponent(name)}`);
  return Object.fromEntries(Object.entries(row).filter(([field]) => !NOT_COPIED.has(field)));
}

/** @param {HTMLFormElement} form */
function hideProblems(form) {
  const notes = /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-wrong]"));
  for (const note of notes) note.hidden = true;
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
}

/**
 * Shows it at its field, else at the top of the page.
 * @param {HTMLFormElement} form @param {import("./page.js").Problem} error
 */
function showProblem(form, error) {
  const field = error.details?.[0]?.field ?? "";
  const name = error.code === "name_taken" ? "name" : field;
  const column = CSS.escape(name.split(".")[0]); // “limits.max_steps” is shown at the limits
  const note = /** @type {HTMLElement | null} */ (form.querySelector(`[data-wrong="${column}"]`));
  if (!note) {
    tell(error.message);
    return;
  }
  note.hidden = false;
  note.textContent = atField(error, name);
  const input = /** @type {HTMLElement | null} */ (form.querySelector(`[name="${CSS.escape(name)}"]`));
  input?.setAttribute("aria-invalid", "true");
  input?.focus();
}
