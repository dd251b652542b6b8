// The list of conversations beside the chat: pin, rename, delete; a new one appears when it is first talked in.
import { api, make, tell } from "./page.js";

const list = /** @type {HTMLElement | null} */ (document.getElementById("conversations"));

/** @param {HTMLElement} item */
const ids = (item) => (item.dataset.family ?? "").split(" ").filter(Boolean);

/** @param {HTMLElement} item */
function rename(item) {
  const link = /** @type {HTMLAnchorElement} */ (item.querySelector("a"));
  const field = make("input", { value: link.textContent?.trim() ?? "", maxLength: 200, ariaLabel: "Title" });
  link.hidden = true;
  link.after(field);
  field.focus();
  field.select();
  const done = async (keeps) => {
    const title = field.value.trim();
    field.remove();
    link.hidden = false;
    link.focus();
    if (!keeps || !title || title === link.textContent?.trim()) return;
    try {
      for (const id of ids(item)) await api(`sessions/${id}`, { method: "PATCH", body: { title } });
      link.textContent = title;
    } catch (error) { tell(error.message); }
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); done(true); }
    if (event.key === "Escape") { event.stopPropagation(); done(false); }
  });
}

/** @param {HTMLElement} item */
async function pin(item) {
  const pinned = item.dataset.pinned !== "yes";
  for (const id of ids(item)) await api(`sessions/${id}`, { method: "PATCH", body: { pinned } });
  location.reload();
}

/** @param {HTMLElement} item */
async function remove(item) {
  const branches = ids(item).length;
  if (!confirm(branches > 1 ? `Delete this conversation with its ${branches} branches? Its runs are kept.` : "Delete this conversation? Its runs are kept.")) return;
  for (const id of ids(item)) await api(`sessions/${id}`, { method: "DELETE" });
  if (item.querySelector("[aria-current]")) location.href = "/playground/";
  else item.remove();
}

const VERBS = { pin, rename, remove };

list?.addEventListener("click", async (event) => {
  const button = /** @type {Element} */ (event.target).closest("[data-verb]");
  if (!button) return;
  try { await VERBS[/** @type {HTMLElement} */ (button).dataset.verb ?? ""](button.closest("li")); } catch (error) { tell(error.message); }
});

document.addEventListener("talked", (event) => {
  const { session, title } = /** @type {CustomEvent} */ (event).detail;
  if (!list || [...list.querySelectorAll("li")].some((item) => ids(item).includes(session))) return;
  for (const one of list.querySelectorAll("[aria-current]")) one.removeAttribute("aria-current");
  const link = make("a", { href: `?session=${session}`, textContent: title });
  link.setAttribute("aria-current", "page");
  const item = make("li", {}, link);
  item.dataset.family = session;
  list.prepend(item);
});
