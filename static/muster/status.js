// Says on every page when the queue is away or the server does not answer, and takes it back when they are there again.
import { sitePath } from "./site.js";

const EVERY_MS = 30_000, AGAIN_MS = 5_000;
const place = /** @type {HTMLElement} */ (document.querySelector("[data-status]"));

async function look() {
  let words = "";
  if (!document.hidden) {
    const answer = await fetch(sitePath("/status"), { headers: { Accept: "application/json" } }).catch(() => null);
    if (!answer || answer.status >= 500) words = place.dataset.unreachable ?? "";
    else if (answer.ok && !answer.redirected) words = (await answer.json()).notice;
    show(words);
  }
  setTimeout(look, words ? AGAIN_MS : EVERY_MS);
}

/** @param {string} words */
function show(words) {
  place.hidden = !words;
  if (place.textContent !== words) place.textContent = words;
}

if (place) setTimeout(look, 1_000);
