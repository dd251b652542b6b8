// The list of conversations beside the chat: pin, rename, move, delete; a new one appears when it is first talked in.
import { api, make, tell } from "./page.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

const whole = document.querySelector("#history .lists");

const list = /** @type {HTMLElement | null} */ (document.getElementById("conversations"));

/** @param {HTMLElement} item */
const ids = (item) => (item.dataset.family ?? "").split(" ").filter(Boolean);

/** @param {HTMLElement} item */
function rename(item) {
  const link = /** @type {HTMLAnchorElement} */ (item.querySelector("a"));
  const field = make("input", { value: link.textContent?.trim() ?? "", maxLength: 200, ariaLabel: gettext("Title") });
  write(link, field, async (title) => {
    if (!title || title === link.textContent?.trim()) return;
    for (const id of ids(item)) await api(`sessions/${id}`, { method: "PATCH", body: { title } });
    link.textContent = title;
  });
}

/** Into a folder that exists or a new one; an empty name takes it out. @param {HTMLElement} item */
function move(item) {
  const link = /** @type {HTMLAnchorElement} */ (item.querySelector("a"));
  const before = item.dataset.in ?? "";
  const field = make("input", { value: before === "scheduled" ? "" : before, maxLength: 64, ariaLabel: gettext("Folder"), placeholder: gettext("Folder; empty: none") });
  field.setAttribute("list", "folders");
  write(link, field, async (folder) => {
    if (folder === before) return;
    for (const id of ids(item)) await api(`sessions/${id}`, { method: "PATCH", body: { folder } });
    location.reload();
  });
}

/** A field in place of the title; Enter saves, Escape does not. @param {HTMLAnchorElement} link @param {HTMLInputElement} field @param {(text: string) => Promise<void>} save */
function write(link, field, save) {
  link.hidden = true;
  link.after(field);
  field.focus();
  field.select();
  const done = async (/** @type {boolean} */ keeps) => {
    const text = field.value.trim();
    field.remove();
    link.hidden = false;
    link.focus();
    if (!keeps) return;
    try { await save(text); } catch (error) { tell(error.message); }
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
  if (!confirm(branches > 1 ? gettext("Delete this conversation with its %(branches)s branches? Its runs are kept.", { branches }) : gettext("Delete this conversation? Its runs are kept."))) return;
  for (const id of ids(item)) await api(`sessions/${id}`, { method: "DELETE" });
  if (item.querySelector("[aria-current]")) location.href = sitePath("/playground/");
  else item.remove();
}

/** @type {Record<string, (item: HTMLElement) => unknown>} */
const VERBS = { pin, rename, move, remove };

whole?.addEventListener("click", async (event) => {
  const button = /** @type {Element} */ (event.target).closest("[data-verb]");
  if (!button) return;
  try { await VERBS[/** @type {HTMLElement} */ (button).dataset.verb ?? ""](/** @type {HTMLElement} */ (button.closest("li"))); } catch (error) { tell(error.message); }
});

document.addEventListener("talked", (event) => {
  const { session, title } = /** @type {CustomEvent} */ (event).detail;
  if (!list || [.../** @type {Element} */ (whole).querySelectorAll("li")].some((item) => ids(item).includes(session))) return;
  for (const one of /** @type {Element} */ (whole).querySelectorAll("[aria-current]")) one.removeAttribute("aria-current");
  const link = make("a", { href: `?session=${session}`, textContent: title });
  link.setAttribute("aria-current", "page");
  const item = make("li", {}, link);
  item.dataset.family = session;
  list.prepend(item);
});
