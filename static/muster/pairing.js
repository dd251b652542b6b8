// While a pairing code is shown: says when a device has used it, and when that device is connected.
import { api, make } from "./page.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

/** @typedef {{id: string, name: string, is_online: boolean}} Device */

const EVERY_MS = 3000;
const place = /** @type {HTMLElement} */ (document.querySelector("[data-pairing]"));
const devicesBefore = new Set((place.dataset.known ?? "").split(" "));
const expiry = Date.parse(place.dataset.until ?? "");
let shownState = "waiting";

/** @param {Device | undefined} device that has used the code */
function findState(device) {
  if (device) return device.is_online ? "connected" : "paired";
  return Date.now() > expiry ? "expired" : "waiting";
}

/** Written once for each state, so that a screen reader says it once. @param {string} state @param {any} device */
function show(state, device) {
  if (state === shownState) return;
  shownState = state;
  if (state === "expired") {
    place.replaceChildren(gettext("The code has expired, and no device has used it. Get a new one."));
    return;
  }
  const isConnected = state === "connected";
  const sentence = isConnected
    ? gettext("“%(name)s” is connected.", device)
    : gettext("“%(name)s” is paired. Connect it with the last command.", device);
  const link = make("a", { href: sitePath(`/devices/${device.id}/`), textContent: gettext("Open its page") });
  place.className = isConnected ? "note success" : "note";
  place.replaceChildren(sentence, " ", link);
}

/** Asks once, and again until the device is connected or the code has expired. */
async function checkDevices() {
  const isSeen = !document.hidden;
  const answer = isSeen ? await api("devices/").catch(() => null) : null; // null: the server is away for a moment
  if (answer) {
    const devices = /** @type {Device[]} */ (answer.results);
    const device = devices.find((one) => !devicesBefore.has(one.id));
    show(findState(device), device);
  }
  if (shownState === "waiting" || shownState === "paired") setTimeout(checkDevices, EVERY_MS);
}

setTimeout(checkDevices, EVERY_MS);
