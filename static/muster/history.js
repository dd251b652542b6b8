// The list of conversations beside the chat: search, pin, rename, move, delete; a new one appears when it is first talked in.
import { iconButton } from "./icons.js";
import { api, make, reach, tell } from "./page.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

const TYPED_MS = 250;
const lists = /** @type {HTMLElement | null} */ (document.querySelector("#history .lists"));
const search = /** @type {HTMLInputElement | null} */ (document.getElementById("find"));
const menu = document.getElementById("item-menu");

/** @param {HTMLElement} item */
const ids = (item) => (item.dataset.family ?? "").split(" ").filter(Boolean);
/** @param {HTMLElement} item */
const linkOf = (item) => /** @type {HTMLAnchorElement} */ (item.querySelector("a"));

/** @param {HTMLElement} item @param {Record<string, any>} fields */
async function change(item, fields) {
  for (const id of ids(item)) await api(`sessions/${id}`, { method: "PATCH", body: fields });
}

/** @param {HTMLElement} item */
function rename(item) {
  const link = linkOf(item);
  const field = make("input", { value: link.textContent?.trim() ?? "", maxLength: 200, ariaLabel: gettext("Title") });
  write(item, field, async (title) => {
    if (!title || title === link.textContent?.trim()) return;
    await change(item, { title });
    link.textContent = title;
  });
}

/** Into a folder that exists or a new one; an empty name takes it out. @param {HTMLElement} item */
function move(item) {
  const before = item.dataset.in ?? "";
  const field = make("input", { value: before === "scheduled" ? "" : before, maxLength: 64, ariaLabel: gettext("Folder"), placeholder: gettext("Folder; empty: none") });
  field.setAttribute("list", "folders");
  write(item, field, async (folder) => {
    if (folder === before) return;
    await change(item, { folder });
    item.dataset.in = folder;
    putInPlace(item);
  });
}

/** A field in place of the title; Enter saves, Escape does not. @param {HTMLElement} item @param {HTMLInputElement} field @param {(text: string) => Promise<void>} save */
function write(item, field, save) {
  const link = linkOf(item);
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
  await change(item, { pinned });
  item.dataset.pinned = pinned ? "yes" : "no";
  putInPlace(item);
}

/** As the server orders them: pinned ones first, then the newest; others in their folders. @param {HTMLElement} item */
function putInPlace(item) {
  const isPinned = item.dataset.pinned === "yes";
  const list = isPinned ? null : folderList(item.dataset.in ?? "");
  const target = list ?? /** @type {HTMLElement} */ (document.getElementById("conversations"));
  item.remove();
  const others = /** @type {HTMLElement[]} */ ([...target.children]);
  const after = others.find((other) => comesAfter(other, item));
  target.insertBefore(item, after ?? null);
  for (const folder of /** @type {NodeListOf<HTMLDetailsElement>} */ (lists?.querySelectorAll("details[data-folder]") ?? [])) countIn(folder);
  linkOf(item).scrollIntoView({ block: "nearest" });
  linkOf(item).focus();
}

/** Ids begin with the time at which they were made. @param {HTMLElement} other @param {HTMLElement} item */
function comesAfter(other, item) {
  const isPinned = item.dataset.pinned === "yes";
  if ((other.dataset.pinned === "yes") !== isPinned) return isPinned;
  return (ids(other)[0] ?? "") < (ids(item)[0] ?? "");
}

/** The list of a folder, which is made if it is new; null for none. @param {string} name */
function folderList(name) {
  if (!name || !lists) return null;
  const folders = /** @type {HTMLElement[]} */ ([...lists.querySelectorAll("details[data-folder]")]);
  let folder = folders.find((one) => one.dataset.folder === name);
  if (!folder) {
    folder = make("details", { open: true }, make("summary", {}, name, " ", make("span", { className: "small soft" })), make("ul", { className: "conversations" }));
    folder.dataset.folder = name;
    lists.append(folder);
    document.getElementById("folders")?.append(make("option", { value: name }));
  }
  /** @type {HTMLDetailsElement} */ (folder).open = true;
  return /** @type {HTMLElement} */ (folder.querySelector("ul"));
}

/** @param {HTMLDetailsElement} folder */
function countIn(folder) {
  const number = folder.querySelectorAll("li").length;
  if (!number) { folder.remove(); return; }
  const count = folder.querySelector("summary span");
  if (count) count.textContent = String(number);
}

/** @param {HTMLElement} item */
async function remove(item) {
  const branches = ids(item).length;
  if (!confirm(branches > 1 ? gettext("Delete this conversation with its %(branches)s branches? Its runs are kept.", { branches }) : gettext("Delete this conversation? Its runs are kept."))) return;
  for (const id of ids(item)) await api(`sessions/${id}`, { method: "DELETE" });
  if (item.querySelector("[aria-current]")) { location.href = sitePath("/playground/"); return; }
  const folder = item.closest("details");
  item.remove();
  if (folder) countIn(folder);
  search?.focus();
}

// -- the menu of a conversation -----------------------------------------------------------------------------------------

/** @type {Record<string, (item: HTMLElement) => unknown>} */
const VERBS = { pin, rename, move, remove };
/** @type {HTMLElement | null} whose menu is open */
let chosen = null;

/** Below the button, or above it where there is no room. @param {HTMLElement} button */
function openMenu(button) {
  if (!menu) return;
  chosen = button.closest("li");
  const words = menu.querySelector("[data-verb=pin] span");
  if (words) words.textContent = chosen?.dataset.pinned === "yes" ? gettext("Unpin") : gettext("Pin");
  menu.showPopover();
  const at = button.getBoundingClientRect();
  const room = innerHeight - at.bottom;
  const top = room > menu.offsetHeight + 8 ? at.bottom + 2 : at.top - menu.offsetHeight - 2;
  menu.style.top = `${Math.max(4, top)}px`;
  menu.style.left = `${Math.max(4, Math.min(at.left, innerWidth - menu.offsetWidth - 8))}px`;
  /** @type {HTMLElement | null} */ (menu.querySelector("button"))?.focus();
}

lists?.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-more]"));
  if (button) openMenu(button);
});
menu?.addEventListener("click", async (event) => {
  const verb = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-verb]"))?.dataset.verb ?? "";
  const item = chosen;
  if (!verb || !item) return;
  menu.hidePopover();
  try { await VERBS[verb](item); } catch (error) { tell(error.message); }
});
menu?.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const buttons = /** @type {HTMLElement[]} */ ([...menu.querySelectorAll("button")]);
  const at = buttons.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  buttons[(at + step + buttons.length) % buttons.length].focus();
});

// -- search -------------------------------------------------------------------------------------------------------------

let typed = 0;

async function find() {
  const mine = typed += 1;
  await new Promise((done) => setTimeout(done, TYPED_MS));
  if (mine !== typed || !lists) return;
  const url = new URL(location.href);
  url.searchParams.set("find", search?.value.trim() ?? "");
  url.hash = "";
  const response = await reach(url.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!response?.ok || mine !== typed) return;
  const drawn = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("#history .lists");
  if (drawn && mine === typed && !menu?.matches(":popover-open")) lists.replaceChildren(...drawn.childNodes);
}

search?.addEventListener("input", find);
search?.form?.addEventListener("submit", (event) => { event.preventDefault(); find(); });

// -- a new conversation -------------------------------------------------------------------------------------------------

document.addEventListener("talked", (event) => {
  const { session, title } = /** @type {CustomEvent} */ (event).detail;
  const list = document.getElementById("conversations");
  if (!list || !lists || [...lists.querySelectorAll("li")].some((item) => ids(item).includes(session))) return;
  for (const one of lists.querySelectorAll("[aria-current]")) one.removeAttribute("aria-current");
  lists.querySelector(".none")?.remove();
  const link = make("a", { href: `?session=${session}`, textContent: title, dir: "auto" });
  link.setAttribute("aria-current", "page");
  const more = iconButton("more", gettext("What to do with %(title)s", { title: title.slice(0, 40) }), () => {});
  more.dataset.more = "";
  const item = make("li", {}, link, more);
  Object.assign(item.dataset, { family: session, pinned: "no", in: "" });
  list.append(item);
  putQuietly(list, item);
});

/** Below the pinned ones, without taking the keyboard from the message. @param {HTMLElement} list @param {HTMLElement} item */
function putQuietly(list, item) {
  const first = /** @type {HTMLElement[]} */ ([...list.children]).find((other) => other !== item && other.dataset.pinned !== "yes");
  list.insertBefore(item, first ?? null);
}
