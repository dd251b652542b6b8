// What every page does: times in the viewer's zone, theme, menu, copy buttons, confirmations.
import { inWords } from "./problems.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

// The browser's way to write the page's language, such as en-GB; else that language.
const LANGUAGE = document.documentElement.lang;
const LOCALE = navigator.languages.find((one) => one.split("-")[0] === LANGUAGE) ?? LANGUAGE;
const WITH_DATE = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short" });
const EXACT = new Intl.DateTimeFormat(LOCALE, { dateStyle: "full", timeStyle: "long" });
const AGO = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto" });
/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

/** @param {ParentNode} [root] */
export function localise(root = document) {
  for (const time of /** @type {NodeListOf<HTMLTimeElement>} */ (root.querySelectorAll("time[datetime]"))) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = EXACT.format(at);
    time.textContent = time.dataset.ago === undefined ? WITH_DATE.format(at) : ago(at);
  }
}

/** @param {Date} at @param {number} [now] milliseconds */
export function ago(at, now = Date.now()) {
  const seconds = (at.getTime() - now) / 1000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? UNITS[UNITS.length - 1];
  return AGO.format(Math.round(seconds / size), unit);
}

export function csrf() {
  const name = sitePath("/") === "/" ? "csrftoken" : "muster_csrftoken"; // other programs of the host may have the first
  return document.cookie.match(new RegExp(`(?:^|; )${name}=([^;]+)`))?.[1] ?? "";
}

/** @typedef {Error & {status: number, code?: string, details: Record<string, any>[]}} Problem what the API refused, in words */

/**
 * The API as the signed-in person. Resolves to JSON; rejects with a `Problem` that has the API's message.
 * @param {string} path below /api/v1/ @param {{method?: string, body?: any, headers?: Record<string, string>, signal?: AbortSignal}} [options] @returns {Promise<any>}
 */
export async function api(path, { method = "GET", body, headers = {}, signal } = {}) {
  const response = await reach(sitePath(`/api/v1/${path}`), {
    method,
    signal,
    headers: { Accept: "application/json", "Accept-Language": LANGUAGE, ...(body instanceof FormData ? {} : { "Content-Type": "application/json" }), "X-CSRFToken": csrf(), ...headers },
    body: body === undefined || body instanceof FormData ? body : JSON.stringify(body),
  });
  const answer = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw problem(answer, response);
  return answer;
}

/** @param {string} url @param {RequestInit} options */
export async function reach(url, options) {
  return fetch(url, options).catch((error) => { throw options.signal?.aborted ? error : new Error(gettext("The server did not answer.")); });
}

/** @param {any} answer the JSON of the answer, if it has any @param {Response} response @returns {Problem} */
export function problem(answer, response) {
  const told = answer?.error ?? {};
  const isSignedOut = response.status === 401 || (response.redirected && new URL(response.url).pathname.startsWith(SIGN_IN));
  if (isSignedOut) askToSignIn();
  const text = isSignedOut ? gettext("You are signed out: sign in again.") : inWords(told) || gettext("The server answered %(status)s.", { status: response.status });
  return Object.assign(new Error(text), { status: response.status, code: told.code, details: told.details ?? [] });
}

const SIGN_IN = sitePath("/login/");

/** In another tab, so that nothing on this page is lost. */
function askToSignIn() {
  if (document.querySelector("[data-sign-in]")) return;
  const link = make("a", { href: SIGN_IN, target: "_blank", textContent: gettext("Sign in again") });
  link.dataset.signIn = "";
  link.addEventListener("click", () => note.remove());
  const note = make("p", { className: "note warning" }, `${gettext("You are signed out.")} `, link);
  document.querySelector("[data-messages]")?.after(note);
}

/** @param {string} text @param {string} [kind] */
export function tell(text, kind = "error") {
  const note = Object.assign(document.createElement("p"), { className: `note ${kind}`, textContent: text });
  document.querySelector("[data-messages]")?.replaceChildren(note);
  note.scrollIntoView({ block: "nearest" });
}

/** To the clipboard. Browsers offer `navigator.clipboard` only with https and on localhost. @param {string} text @param {HTMLElement} button says that it is done */
export async function copy(text, button) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    const field = make("textarea", { className: "sr", value: text, readOnly: true });
    button.after(field); // in the same dialog, if it is in one
    field.select();
    document.execCommand("copy");
    field.remove();
    button.focus();
  }
  if (button.querySelector(".icon")) return void showCopied(button);
  button.dataset.before ??= button.textContent ?? "";
  button.textContent = gettext("Copied");
  setTimeout(() => { button.textContent = button.dataset.before ?? ""; }, 1200);
}

/** On a button that is an icon. @param {HTMLElement} button */
function showCopied(button) {
  button.dataset.before ??= button.ariaLabel ?? "";
  button.ariaLabel = gettext("Copied");
  button.classList.add("done");
  setTimeout(() => { button.ariaLabel = button.dataset.before ?? ""; button.classList.remove("done"); }, 1200);
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Record<string, any>} [properties] @param {...(Node | string | null | undefined)} children @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** What the server should know before it draws the next page; no script has to run before the first paint. @param {string} name @param {string} value */
function keep(name, value) {
  document.cookie = `${name}=${value}; path=${sitePath("/")}; max-age=31536000; samesite=lax`;
}

// From what the system says to its opposite, to the same fixed, and back to what the system says.
function toggleTheme() {
  const order = matchMedia("(prefers-color-scheme: dark)").matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
  const root = document.documentElement.dataset;
  const next = order[(order.indexOf(root.theme ?? "auto") + 1) % 3];
  if (next === "auto") delete root.theme;
  else root.theme = next;
  keep("theme", next);
}

// What an input method takes is nobody's shortcut. Safari ends the composition before the Enter that ends it, which has this code.
addEventListener("keydown", (event) => { if (event.isComposing || event.keyCode === 229) event.stopImmediatePropagation(); }, true);

document.addEventListener("click", async (event) => {
  const target = event.target instanceof Element ? event.target : null;
  if (target?.closest("[data-theme-toggle]")) toggleTheme();
  const button = /** @type {HTMLElement | null | undefined} */ (target?.closest("[data-copy]"));
  if (button) await copy(document.getElementById(button.dataset.copy ?? "")?.textContent ?? button.dataset.copy ?? "", button);
});
document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  const question = form.dataset.confirm ?? event.submitter?.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});
document.addEventListener("change", (event) => {
  const field = /** @type {HTMLInputElement} */ (event.target);
  if (field.matches("[data-submits]")) field.form?.requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/** @type {Element} */ (event.target).closest("input, textarea, select, [contenteditable]")) {
    const search = /** @type {HTMLInputElement | null} */ (document.querySelector("input[type=search]"));
    if (search) { event.preventDefault(); search.focus(); }
  }
});
// The server counts days in this zone from the next page on.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) keep("zone", zone);
localise();
