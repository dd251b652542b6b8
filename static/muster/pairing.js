// While a pairing code is shown: says when a device has used it, and when that device is connected.
import { api, make } from "./page.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

const EVERY_MS = 3000;
const place = /** @type {HTMLElement} */ (document.querySelector("[data-pairing]"));
const known = new Set((place.dataset.known ?? "").split(" "));
const until = Date.parse(place.dataset.until ?? "");
let shown = "waiting";

/** @param {{id: string, name: string, is_online: boolean} | undefined} device */
function stateOf(device) {
  if (device) return device.is_online ? "connected" : "paired";
  return Date.now() > until ? "expired" : "waiting";
}

/** Written once for each state, so that a screen reader says it once. @param {string} state @param {any} device */
function show(state, device) {
  if (state === shown) return;
  shown = state;
  if (state === "expired") return place.replaceChildren(gettext("The code has expired, and no device has used it. Get a new one."));
  const words = state === "paired" ? gettext("“%(name)s” is paired. Connect it with the last command.", device) : gettext("“%(name)s” is connected.", device);
  place.className = `note ${state === "connected" ? "success" : ""}`;
  place.replaceChildren(words, " ", make("a", { href: sitePath(`/devices/${device.id}/`), textContent: gettext("Open its page") }));
}

async function look() {
  const answer = document.hidden ? null : await api("devices/").catch(() => null); // the server is away for a moment
  if (answer) {
    const device = answer.results.find((/** @type {{id: string}} */ one) => !known.has(one.id));
    show(stateOf(device), device);
  }
  if (shown === "waiting" || shown === "paired") setTimeout(look, EVERY_MS);
}

setTimeout(look, EVERY_MS);
