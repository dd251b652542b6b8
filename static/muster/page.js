// What every page does: times in the viewer's zone, theme, menu, copy buttons, confirmations.
import { inWords } from "./problems.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

// A person may read English and write times as in Britain: the browser's own variant of the page's language, such as
// en-GB; else that language.
const LANGUAGE = document.documentElement.lang;
const LOCALE = navigator.languages.find((tag) => tag.split("-")[0] === LANGUAGE) ?? LANGUAGE;
const WITH_DATE = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short" });
const EXACT = new Intl.DateTimeFormat(LOCALE, { dateStyle: "full", timeStyle: "long" });
const AGO = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto" });
/** @type {[Intl.RelativeTimeFormatUnit, number][]} each with its seconds */
const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

/** Writes the times below this element in the viewer's language and zone. @param {ParentNode} [root] */
export function localise(root = document) {
  for (const time of /** @type {NodeListOf<HTMLTimeElement>} */ (root.querySelectorAll("time[datetime]"))) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = EXACT.format(at);
    time.textContent = time.dataset.ago === undefined ? WITH_DATE.format(at) : ago(at);
  }
}

/** A time as people say it: “two hours ago”, “in three days”. @param {Date} at @param {number} [now] milliseconds */
export function ago(at, now = Date.now()) {
  const seconds = (at.getTime() - now) / 1000;
  const largest = UNITS.find(([, size]) => Math.abs(seconds) >= size);
  const [unit, size] = largest ?? UNITS[UNITS.length - 1];
  return AGO.format(Math.round(seconds / size), unit);
}

/** The token that Django wants with each request that changes something. */
export function csrf() {
  const isAtRoot = sitePath("/") === "/";
  const name = isAtRoot ? "csrftoken" : "muster_csrftoken"; // other programs of the host may have the first
  const cookie = new RegExp(`(?:^|; )${name}=([^;]+)`).exec(document.cookie);
  return cookie?.[1] ?? "";
}

/**
 * What the API refused, in words.
 * @typedef {Error & {status: number, code?: string, details: Record<string, any>[]}} Problem
 */
/** @typedef {{method?: string, body?: any, headers?: Record<string, string>, signal?: AbortSignal}} ApiOptions */

/**
 * The API as the signed-in person. Resolves to JSON; rejects with a `Problem` that has the API's message.
 * @param {string} path below /api/v1/ @param {ApiOptions} [options] @returns {Promise<any>}
 */
export async function api(path, { method = "GET", body, headers = {}, signal } = {}) {
  const isForm = body instanceof FormData; // the browser writes it, and its type
  /** @type {Record<string, string>} */
  const sent = { Accept: "application/json", "Accept-Language": LANGUAGE, "X-CSRFToken": csrf() };
  if (!isForm) sent["Content-Type"] = "application/json";
  const response = await reach(sitePath(`/api/v1/${path}`), {
    method,
    signal,
    headers: { ...sent, ...headers },
    body: body === undefined || isForm ? body : JSON.stringify(body),
  });
  const hasContent = response.status !== 204;
  const answer = hasContent ? await response.json().catch(() => null) : null;
  if (!response.ok) throw problem(answer, response);
  return answer;
}

/**
 * As fetch, with a sentence instead of the browser's words for a broken line.
 * @param {string} url @param {RequestInit} options
 */
export async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Error(gettext("The server did not answer."));
  }
}

const SIGN_IN = sitePath("/login/");

/**
 * What to throw when the API refused. Whoever is signed out is asked to sign in.
 * @param {any} answer the JSON of the answer, if it has any @param {Response} response @returns {Problem}
 */
export function problem(answer, response) {
  const { status } = response;
  const refusal = answer?.error ?? {};
  const text = inWords(refusal) || gettext("The server answered %(status)s.", { status });
  const more = { status, code: refusal.code, details: refusal.details ?? [] };
  if (!isSignedOut(response)) return Object.assign(new Error(text), more);
  askToSignIn();
  return Object.assign(new Error(gettext("You are signed out: sign in again.")), more);
}

/** Pages answer who is signed out with the form to sign in, the API with 401. @param {Response} response */
function isSignedOut({ status, redirected, url }) {
  return status === 401 || (redirected && new URL(url).pathname.startsWith(SIGN_IN));
}

/** In another tab, so that nothing on this page is lost. */
function askToSignIn() {
  if (document.querySelector("[data-sign-in]")) return;
  const link = make("a", { href: SIGN_IN, target: "_blank", textContent: gettext("Sign in again") });
  link.dataset.signIn = "";
  link.addEventListener("click", () => note.remove());
  const note = make("p", { className: "note warning" }, `${gettext("You are signed out.")} `, link);
  document.querySelector("[data-messages]")?.after(note);
}

/** Shows a sentence at the top of the page. @param {string} text @param {string} [kind] */
export function tell(text, kind = "error") {
  const note = make("p", { className: `note ${kind}`, textContent: text });
  document.querySelector("[data-messages]")?.replaceChildren(note);
  note.scrollIntoView({ block: "nearest" });
}

/**
 * To the clipboard.
 * @param {string} text @param {HTMLElement} button says that it is done
 */
export async function copy(text, button) {
  // Browsers offer the clipboard only with https and on localhost.
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copySelection(text, button);
  if (button.querySelector(".icon")) {
    showCopied(button);
    return;
  }
  button.dataset.before ??= button.textContent ?? "";
  button.textContent = gettext("Copied");
  setTimeout(() => {
    button.textContent = button.dataset.before ?? "";
  }, 1200);
}

/** On a button that is an icon, for whoever hears the page as well. @param {HTMLElement} button */
function showCopied(button) {
  button.dataset.before ??= button.ariaLabel ?? "";
  button.ariaLabel = gettext("Copied");
  button.classList.add("done");
  setTimeout(() => {
    button.ariaLabel = button.dataset.before ?? "";
    button.classList.remove("done");
  }, 1200);
}

/** Copies as the menu of the browser does: what is selected. @param {string} text @param {HTMLElement} button */
function copySelection(text, button) {
  const field = make("textarea", { className: "sr", value: text, readOnly: true });
  button.after(field); // in the same dialog, if it is in one: elsewhere it could not be selected
  field.select();
  document.execCommand("copy");
  field.remove();
  button.focus();
}

/**
 * An element with properties and children; a child that is null is left out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Record<string, any>} [properties]
 * @param {...(Node | string | null | undefined)} children @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Tells the server what it should know before it draws the next page; no script has to run before the first paint.
 * @param {string} name @param {string} value
 */
function storeCookie(name, value) {
  document.cookie = `${name}=${value}; path=${sitePath("/")}; max-age=31536000; samesite=lax`;
}

// From what the system says to its opposite, to the same fixed, and back to what the system says.
function toggleTheme() {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = isDark ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
  const root = document.documentElement.dataset;
  const place = order.indexOf(root.theme ?? "auto");
  const next = order[(place + 1) % order.length];
  if (next === "auto") delete root.theme;
  else root.theme = next;
  storeCookie("theme", next);
}

/**
 * <button data-copy>: its value is the id of the element whose text is copied, or the text.
 * @param {HTMLElement} button
 */
function copyNamed(button) {
  const { copy: name = "" } = button.dataset;
  return copy(document.getElementById(name)?.textContent ?? name, button);
}

// What an input method takes is nobody's shortcut. Safari ends the composition before the Enter that ends it, which has
// this code.
addEventListener("keydown", (event) => {
  if (event.isComposing || event.keyCode === 229) event.stopImmediatePropagation();
}, true);

document.addEventListener("click", async (event) => {
  const target = event.target instanceof Element ? event.target : null;
  if (target?.closest("[data-theme-toggle]")) toggleTheme();
  const button = /** @type {HTMLElement | null | undefined} */ (target?.closest("[data-copy]"));
  if (button) await copyNamed(button);
});
// A question before what cannot be undone: <form data-confirm="…">, or one of its buttons.
document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  const question = form.dataset.confirm ?? event.submitter?.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});
// Filters that apply at once: <select data-submits>.
document.addEventListener("change", (event) => {
  const field = /** @type {HTMLInputElement} */ (event.target);
  if (field.matches("[data-submits]")) field.form?.requestSubmit();
});
// “/” goes to the search, as on many sites, except where a person writes.
document.addEventListener("keydown", (event) => {
  const target = /** @type {Element} */ (event.target);
  if (event.key !== "/" || target.closest("input, textarea, select, [contenteditable]")) return;
  const search = /** @type {HTMLInputElement | null} */ (document.querySelector("input[type=search]"));
  if (!search) return;
  event.preventDefault();
  search.focus();
});
// The server counts days in this zone from the next page on.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) storeCookie("zone", zone);
localise();
