// Says on every page when the queue is away or the server does not answer, and takes it back when they are there again.
import { sitePath } from "./site.js";

const EVERY_MS = 30_000;
const AGAIN_MS = 5_000; // while something is wrong
const FIRST_MS = 1_000; // the page itself comes first
const place = /** @type {HTMLElement} */ (document.querySelector("[data-status]"));

/** Asks once, and again later; not while nobody sees the page. */
async function checkStatus() {
  let notice = "";
  if (!document.hidden) {
    notice = await fetchNotice();
    show(notice);
  }
  setTimeout(checkStatus, notice ? AGAIN_MS : EVERY_MS);
}

/** What people should know; empty if all is well, and for those who are signed out. */
async function fetchNotice() {
  const response = await fetch(sitePath("/status"), { headers: { Accept: "application/json" } }).catch(() => null);
  if (!response || response.status >= 500) return place.dataset.unreachable ?? "";
  if (!response.ok || response.redirected) return "";
  const { notice } = await response.json();
  return notice;
}

/** @param {string} notice */
function show(notice) {
  place.hidden = !notice;
  // Set anew, the same words would be read out again.
  if (place.textContent !== notice) place.textContent = notice;
}

if (place) setTimeout(checkStatus, FIRST_MS);
