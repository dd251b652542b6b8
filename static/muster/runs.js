// The list of runs keeps up to date: it asks only for new runs and for those that had not ended. Two ticked runs can be compared.
import { localise } from "./page.js";

const FAST_MS = 2000, SLOW_MS = 6000, SHOWN = 50;
const form = /** @type {HTMLFormElement} */ (document.querySelector("[data-runs]"));
const body = /** @type {HTMLElement} */ (form.querySelector("tbody"));
const rows = () => /** @type {HTMLElement[]} */ ([...body.querySelectorAll("tr[data-run]")]);

function address() {
  const query = new URLSearchParams(location.search);
  query.set("part", "rows");
  query.set("newest", rows()[0]?.dataset.run ?? "");
  query.set("watch", rows().filter((row) => "open" in row.dataset).map((row) => row.dataset.run).join(","));
  return `?${query}`;
}

/** Puts a row in the place of its older self, or where its id belongs: ids are in the order of time. @param {HTMLElement} row */
function place(row) {
  const id = row.dataset.run ?? "";
  const before = rows().find((one) => one.dataset.run === id);
  if (before?.innerHTML === row.innerHTML) return;
  localise(row);
  if (before) {
    const tick = /** @type {HTMLInputElement} */ (before.querySelector("input"));
    if (document.activeElement && before.contains(document.activeElement)) return; // at the next look
    /** @type {HTMLInputElement} */ (row.querySelector("input")).checked = tick.checked;
    before.replaceWith(row);
  } else body.insertBefore(row, rows().find((one) => (one.dataset.run ?? "") < id) ?? null);
}

async function look() {
  if (document.hidden) return;
  const answer = await fetch(address(), { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) return; // signed out, or the server is away for a moment
  const holder = document.createElement("table");
  holder.innerHTML = await answer.text();
  const fresh = /** @type {HTMLElement[]} */ ([...holder.querySelectorAll("tr[data-run]")]);
  if (!fresh.length) return;
  if (!rows().length) return location.reload();
  fresh.reverse().forEach(place);
  rows().slice(SHOWN).forEach((row) => row.remove());
}

async function again() {
  await look();
  setTimeout(again, body.querySelector("[data-open]") ? FAST_MS : SLOW_MS);
}

function ticks() {
  const chosen = form.querySelectorAll('input[name="run"]:checked').length;
  const button = /** @type {HTMLButtonElement | null} */ (form.querySelector("[data-compare]"));
  if (button) button.disabled = chosen !== 2;
}

form.addEventListener("change", ticks);
ticks();
if ("live" in form.dataset) setTimeout(again, FAST_MS);
document.addEventListener("visibilitychange", () => { if ("live" in form.dataset) look(); });
