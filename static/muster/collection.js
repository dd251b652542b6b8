// The documents of a collection keep up to date while some of them wait or are read.
import { localise } from "./page.js";

const EVERY_MS = 3_000;
const list = /** @type {HTMLElement | null} */ (document.querySelector("[data-documents]"));

/** Draws the list anew, as the server has it now. @param {HTMLElement} list */
async function refresh(list) {
  // Nobody sees it, or somebody is about to press a button in it: the next time will do.
  if (document.hidden || list.contains(document.activeElement)) return;
  const query = new URLSearchParams(location.search);
  query.set("part", "documents");
  const response = await fetch(`?${query}`, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!response?.ok || response.redirected) return; // signed out, or the server is away for a moment
  list.innerHTML = await response.text();
  localise(list);
}

/** Refreshes until no document waits any more. @param {HTMLElement} list */
async function follow(list) {
  if (!list.querySelector("[data-busy]")) return;
  await refresh(list);
  setTimeout(follow, EVERY_MS, list);
}

if (list) setTimeout(follow, EVERY_MS, list);
