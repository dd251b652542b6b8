// The documents of a collection keep up to date while some of them wait or are read.
import { localise } from "./page.js";

const EVERY_MS = 3_000;
const list = /** @type {HTMLElement | null} */ (document.querySelector("[data-documents]"));

/** @param {HTMLElement} list */
async function look(list) {
  if (document.hidden || list.contains(document.activeElement)) return; // at the next look
  const query = new URLSearchParams(location.search);
  query.set("part", "documents");
  const answer = await fetch(`?${query}`, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) return; // signed out, or the server is away for a moment
  list.innerHTML = await answer.text();
  localise(list);
}

/** @param {HTMLElement} list */
async function follow(list) {
  if (!list.querySelector("[data-busy]")) return;
  await look(list);
  setTimeout(follow, EVERY_MS, list);
}

if (list) setTimeout(follow, EVERY_MS, list);
