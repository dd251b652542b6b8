// Keeps the count of open approvals in the menu up to date while the page is seen.
import { sitePath } from "./site.js";

const EVERY_MS = 15_000;

async function look() {
  if (document.hidden) return;
  const answer = await fetch(sitePath("/approvals/count"), { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) return; // signed out, or the server is away for a moment
  show((await answer.json()).open);
}

/** @param {number} open */
function show(open) {
  const link = document.querySelector(`#nav a[href="${sitePath("/approvals/")}"]`);
  if (!link) return;
  let badge = link.querySelector(".count");
  const before = Number(badge?.textContent ?? 0);
  if (open === before) return;
  if (!badge) {
    badge = Object.assign(document.createElement("span"), { className: "count" });
    link.append(badge);
  }
  badge.textContent = String(open);
  if (!open) badge.remove();
  document.dispatchEvent(new CustomEvent("approvals", { detail: { open, before } }));
}

setInterval(look, EVERY_MS);
document.addEventListener("visibilitychange", look);
document.addEventListener("decided", look);

// The inbox itself: what came since is shown with a link, so that nothing that is being typed is lost.
document.addEventListener("approvals", (event) => {
  const place = document.querySelector("[data-newer]");
  if (place instanceof HTMLElement) place.hidden = /** @type {CustomEvent} */ (event).detail.open <= Number(place.dataset.newer);
});
