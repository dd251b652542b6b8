// The forms of the admin: a question before unsaved changes are lost, and names for parts that Django's scripts draw.

import { drawSearched } from "./searched.js";
import { watch } from "./unsaved.js";

drawSearched();

/** Fields in the rows of a table have their column's heading as their name. @param {Element} table */
function nameCells(table) {
  const heads = [...table.querySelectorAll("thead th")];
  heads.forEach((head) => { if (!head.textContent?.trim() && !head.querySelector("input")) head.setAttribute("role", "presentation"); });
  for (const cell of /** @type {NodeListOf<HTMLTableCellElement>} */ (table.querySelectorAll("tbody td"))) {
    const words = heads[cell.cellIndex]?.textContent?.trim();
    for (const field of cell.querySelectorAll("input:not([type=hidden]), select, textarea")) if (words && !field.getAttribute("aria-label")) field.setAttribute("aria-label", words);
  }
}

/** A moment has a field for its date and one for its time, and one label. @param {Element} pair */
function nameMoment(pair) {
  const words = pair.closest(".form-row, td")?.querySelector("label")?.textContent?.replace(":", "").trim() ?? "";
  for (const field of pair.querySelectorAll("input")) if (!field.getAttribute("aria-label")) field.setAttribute("aria-label", `${words} ${field.previousSibling?.textContent ?? ""}`.replace(":", "").trim());
}

function nameAll() {
  for (const pair of document.querySelectorAll(".datetime")) nameMoment(pair);
  for (const tip of document.querySelectorAll(".help-tooltip[aria-label]:not([role])")) tip.setAttribute("role", "img");
  for (const table of document.querySelectorAll(".tabular table, #result_list")) nameCells(table);
}

addEventListener("load", () => {
  // Django's scripts have drawn their lists by now
  for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll(".change-form #content-main > form"))) watch(form);
  nameAll();
  // rows that are added, and parts that are drawn late
  let waiting = 0;
  new MutationObserver(() => { waiting ||= setTimeout(() => { waiting = 0; nameAll(); }, 100); }).observe(document.body, { childList: true, subtree: true });
});
