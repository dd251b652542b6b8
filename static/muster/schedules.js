// The form of a schedule: what the crontab line means, and its next five times in the viewer's zone.
import { localise, make } from "./page.js";
import { sitePath } from "./site.js";

const line = /** @type {HTMLInputElement | null} */ (document.querySelector("[data-crontab]"));
const zone = /** @type {HTMLInputElement | null} */ (document.getElementById("id_timezone"));
const place = /** @type {HTMLElement | null} */ (document.querySelector("[data-times]"));
/** @type {ReturnType<typeof setTimeout> | undefined} */
let waiting;

async function show() {
  if (!line || !place || !line.value.trim()) return;
  const asked = new URLSearchParams({ crontab: line.value, timezone: zone?.value ?? "" });
  const answer = await fetch(sitePath(`/schedules/due-times?${asked}`), { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) return;
  const { words, times, error } = await answer.json();
  place.hidden = false;
  if (error) {
    place.replaceChildren(make("p", { textContent: error }));
    return;
  }
  const items = times.map((/** @type {string} */ at) => make("li", {}, make("time", { dateTime: at, textContent: at })));
  place.replaceChildren(make("p", {}, make("strong", { textContent: words })), make("ol", { className: "small" }, ...items));
  localise(place);
}

function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(show, 300);
}

line?.addEventListener("input", soon);
zone?.addEventListener("input", soon);
show();
