// The account: subscribe this browser to notices, or remove one; offer the names of time zones.
import { api, tell } from "./page.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

const WORKER = sitePath("/static/muster/pushworker.js");
const subscribe = /** @type {HTMLButtonElement} */ (document.getElementById("subscribe"));
const browsers = /** @type {HTMLElement} */ (document.getElementById("browsers"));
const isSupported = window.isSecureContext && "serviceWorker" in navigator && "PushManager" in window;

/** @param {string} text base64url */
const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (sign) => sign.charCodeAt(0));

/** The browser's own name, for the list. */
function browserName() {
  const brands = /** @type {any} */ (navigator).userAgentData?.brands?.map((/** @type {any} */ one) => one.brand).filter((/** @type {string} */ name) => !/not/i.test(name)) ?? [];
  return [brands.at(-1) ?? /Firefox|Safari/.exec(navigator.userAgent)?.[0] ?? gettext("Browser"), navigator.platform].filter(Boolean).join(", ");
}

async function start() {
  if (await Notification.requestPermission() !== "granted") throw new Error(subscribe.dataset.refused ?? gettext("The browser does not allow notices."));
  const registration = await navigator.serviceWorker.register(WORKER);
  const { public_key: key } = await api("account/push/key");
  const before = await registration.pushManager.getSubscription();
  await before?.unsubscribe(); // it may be of another key
  while (!registration.active) await new Promise((done) => setTimeout(done, 50));
  const made = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(key) });
  const { endpoint, keys } = made.toJSON();
  await api("account/push/", { method: "POST", body: { endpoint, keys: { p256dh: keys?.p256dh, auth: keys?.auth }, browser: browserName() } });
}

/** @param {HTMLButtonElement} button */
async function stop(button) {
  await api(`account/push/${button.dataset.unsubscribe}`, { method: "DELETE" });
  const registration = isSupported ? await navigator.serviceWorker.getRegistration(WORKER) : undefined;
  const mine = await registration?.pushManager.getSubscription();
  if (mine && await digest(mine.endpoint) === button.dataset.digest) await mine.unsubscribe();
}

/** @param {string} text */
async function digest(text) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...hash].map((one) => one.toString(16).padStart(2, "0")).join("");
}

async function showWhetherSubscribed() {
  const registration = await navigator.serviceWorker.getRegistration(WORKER);
  const mine = await registration?.pushManager.getSubscription();
  const known = mine ? browsers.querySelector(`[data-digest="${await digest(mine.endpoint)}"]`) : null;
  subscribe.hidden = Boolean(known);
}

/** @param {HTMLButtonElement} button @param {() => Promise<void>} work */
async function during(button, work) {
  button.disabled = true;
  try {
    await work();
    location.reload();
  } catch (error) { tell(/** @type {Error} */ (error).message); }
  button.disabled = false;
}

subscribe.addEventListener("click", () => during(subscribe, start));
for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (browsers.querySelectorAll("[data-unsubscribe]"))) button.addEventListener("click", () => during(button, () => stop(button)));
if (isSupported) showWhetherSubscribed();
else document.getElementById("no-push")?.removeAttribute("hidden");
document.getElementById("zones")?.append(.../** @type {any} */ (Intl).supportedValuesOf("timeZone").map((/** @type {string} */ name) => Object.assign(document.createElement("option"), { value: name })));
