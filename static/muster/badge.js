// Keeps the count of open approvals in the menu up to date while the page is seen.
import { sitePath } from "./site.js";

const EVERY_MS = 15_000;

/** Asks for the count; not while nobody sees the page. */
async function refresh() {
  if (document.hidden) return;
  const path = sitePath("/approvals/count");
  const response = await fetch(path, { headers: { Accept: "application/json" } }).catch(() => null);
  if (!response?.ok || response.redirected) return; // signed out, or the server is away for a moment
  const { open } = await response.json();
  show(open);
}

/** Writes the count at the link in the menu, and tells other scripts of the page. @param {number} open approvals */
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

setInterval(refresh, EVERY_MS);
document.addEventListener("visibilitychange", refresh);
document.addEventListener("decided", refresh);

// The inbox itself: what came since is shown with a link, so that nothing that is being typed is lost.
document.addEventListener("approvals", (event) => {
  const { open } = /** @type {CustomEvent} */ (event).detail;
  const note = document.querySelector("[data-newer]");
  if (note instanceof HTMLElement) note.hidden = open <= Number(note.dataset.newer);
});
