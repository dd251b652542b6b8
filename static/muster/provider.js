// The page of a provider: the models that its server lists, and the table of prices.
import { keptTo } from "./namesakes.js";
import { number } from "./numbers.js";
import { api, make } from "./page.js";
import { gettext, word } from "./texts.js";

const MOST = 60;
const place = /** @type {HTMLElement} */ (document.querySelector("[data-served]"));
const known = JSON.parse(document.getElementById("known-prices")?.textContent ?? "{}");
/** @type {string[]} */
let served = [];
/** @type {Record<string, {window: number | null, features: string[]}>} */
let about = {};

/** What is known of a model: the tokens that it reads, and what it can do. @param {string} name */
function facts(name) {
  const model = about[name];
  if (!model) return "";
  const window = model.window ? [gettext("%(tokens)s tokens", { tokens: number(model.window) })] : [];
  return ` ${[...window, ...model.features.map((one) => word(one))].join(" · ")}`;
}

async function showModels() {
  try {
    const answer = await api(keptTo(place.dataset.query, `providers/${encodeURIComponent(place.dataset.served ?? "")}/models`));
    served = answer.models;
    about = answer.known;
  } catch (error) {
    place.replaceChildren(make("p", { className: "soft", textContent: /** @type {Error} */ (error).message }));
    return;
  }
  const names = served.slice(0, MOST).map((name) => make("li", {}, make("code", { textContent: name }), make("span", { className: "soft", textContent: facts(name) })));
  const more = served.length > MOST ? make("p", { className: "soft small", textContent: `+ ${served.length - MOST}` }) : null;
  place.replaceChildren(served.length ? make("ul", { className: "row small" }, ...names) : make("p", { className: "soft", textContent: "–" }), ...(more ? [more] : []));
  document.getElementById("served")?.replaceChildren(...served.map((value) => make("option", { value })));
}

/** @param {HTMLElement} row */
const inputs = (row) => /** @type {HTMLInputElement[]} */ ([...row.querySelectorAll("input")]);

/** @param {string} [model] @param {{input: number, output: number}} [price] */
function addRow(model = "", price) {
  const blank = /** @type {HTMLElement} */ (document.querySelector("[data-blank]"));
  const row = /** @type {HTMLElement} */ (blank.cloneNode(true));
  row.removeAttribute("data-blank");
  [model, price?.input ?? "", price?.output ?? ""].forEach((value, at) => { inputs(row)[at].value = String(value); });
  blank.before(row);
}

// Prices that were typed stay. If the server's list is known, only its models are filled in.
document.querySelector("[data-fill-prices]")?.addEventListener("click", () => {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-prices] tr")]);
  const there = new Set(rows.map((row) => inputs(row)[0].value.trim()));
  const fitting = Object.entries(known).filter(([model]) => !there.has(model) && (!served.length || served.includes(model)));
  for (const [model, price] of fitting) addRow(model, price);
  document.querySelector("[data-prices]")?.dispatchEvent(new Event("input", { bubbles: true }));
});

// The last row is always empty.
document.querySelector("[data-prices]")?.addEventListener("change", (event) => {
  const row = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-blank]"));
  if (!row || inputs(row).some((one) => !one.value.trim())) return;
  const [model, cost, output] = inputs(row).map((one) => one.value);
  addRow(model, { input: Number(cost), output: Number(output) });
  for (const one of inputs(row)) one.value = "";
});

showModels();
