// The account: subscribe this browser to notices, or remove one; offer the names of time zones.
import { api, make, tell } from "./page.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

const WORKER = sitePath("/static/muster/pushworker.js");
const subscribeButton = /** @type {HTMLButtonElement} */ (document.getElementById("subscribe"));
const browsers = /** @type {HTMLElement} */ (document.getElementById("browsers"));
const isSupported = window.isSecureContext && "serviceWorker" in navigator && "PushManager" in window;

/** Asks for permission, and gives the server the address at which this browser takes notices. */
async function subscribe() {
  const permission = await Notification.requestPermission();
  if (permission !== "granted") {
    throw new Error(subscribeButton.dataset.refused ?? gettext("The browser does not allow notices."));
  }
  const registration = await navigator.serviceWorker.register(WORKER);
  const { public_key: key } = await api("account/push/key");
  const before = await registration.pushManager.getSubscription();
  await before?.unsubscribe(); // it may be of another key
  while (!registration.active) await new Promise((resolve) => setTimeout(resolve, 50));
  const options = { userVisibleOnly: true, applicationServerKey: decodeBase64(key) };
  const subscription = await registration.pushManager.subscribe(options);
  const { endpoint, keys } = subscription.toJSON();
  const body = { endpoint, keys: { p256dh: keys?.p256dh, auth: keys?.auth }, browser: describeBrowser() };
  await api("account/push/", { method: "POST", body });
}

/** @param {string} text base64url */
function decodeBase64(text) {
  const standard = text.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(standard), (character) => character.charCodeAt(0));
}

/** The browser's own name, for the list. */
function describeBrowser() {
  const { userAgentData } = /** @type {any} */ (navigator);
  /** @type {string[]} */
  const brands = (userAgentData?.brands ?? []).map((/** @type {{brand: string}} */ one) => one.brand);
  const brand = brands.findLast((name) => !/not/i.test(name)); // Chromium adds a brand such as “Not A;Brand”
  const name = brand ?? /Firefox|Safari/.exec(navigator.userAgent)?.[0] ?? gettext("Browser");
  return [name, navigator.platform].filter(Boolean).join(", ");
}

/** Removes one browser from the list; this one also stops taking notices. @param {HTMLButtonElement} button */
async function unsubscribe(button) {
  await api(`account/push/${button.dataset.unsubscribe}`, { method: "DELETE" });
  const own = isSupported ? await findSubscription() : null;
  if (own && await computeDigest(own.endpoint) === button.dataset.digest) await own.unsubscribe();
}

/** The subscription of this browser, if it has one. */
async function findSubscription() {
  const registration = await navigator.serviceWorker.getRegistration(WORKER);
  return registration?.pushManager.getSubscription();
}

/** Pages name a browser by the hash of its address: the address itself would let others send. @param {string} text */
async function computeDigest(text) {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A browser that takes notices already is not offered to subscribe. */
async function hideIfSubscribed() {
  const own = await findSubscription();
  const row = own ? browsers.querySelector(`[data-digest="${await computeDigest(own.endpoint)}"]`) : null;
  subscribeButton.hidden = row !== null;
}

/**
 * Does the work of a button once, then shows the page anew.
 * @param {HTMLButtonElement} button @param {() => Promise<void>} work
 */
async function runFor(button, work) {
  button.disabled = true;
  try {
    await work();
    location.reload();
  } catch (error) {
    tell(error.message);
  }
  button.disabled = false;
}

subscribeButton.addEventListener("click", () => runFor(subscribeButton, subscribe));
for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (browsers.querySelectorAll("[data-unsubscribe]"))) {
  button.addEventListener("click", () => runFor(button, () => unsubscribe(button)));
}
if (isSupported) hideIfSubscribed();
else document.getElementById("no-push")?.removeAttribute("hidden");

/** @type {string[]} */
const zones = /** @type {any} */ (Intl).supportedValuesOf("timeZone");
document.getElementById("zones")?.append(...zones.map((name) => make("option", { value: name })));
