// The forms of the admin: a question before unsaved changes are lost, and names for parts that Django's scripts draw.

import { drawSearched } from "./searched.js";
import { watch } from "./unsaved.js";

drawSearched();

/** Fields in the rows of a table have their column's heading as their name. @param {Element} table */
function nameCells(table) {
  const heads = [...table.querySelectorAll("thead th")];
  for (const head of heads) {
    const isEmpty = !head.textContent?.trim() && !head.querySelector("input");
    if (isEmpty) head.setAttribute("role", "presentation");
  }
  for (const cell of /** @type {NodeListOf<HTMLTableCellElement>} */ (table.querySelectorAll("tbody td"))) {
    const heading = heads[cell.cellIndex]?.textContent?.trim();
    if (!heading) continue;
    for (const field of cell.querySelectorAll("input:not([type=hidden]), select, textarea")) nameField(field, heading);
  }
}

/** A moment has a field for its date and one for its time, and one label. @param {Element} pair */
function nameMoment(pair) {
  const label = pair.closest(".form-row, td")?.querySelector("label")?.textContent ?? "";
  for (const field of pair.querySelectorAll("input")) {
    const part = field.previousSibling?.textContent ?? ""; // “Date:” or “Time:”
    nameField(field, `${label.replace(":", "").trim()} ${part}`.replace(":", "").trim());
  }
}

/** @param {Element} field @param {string} name */
function nameField(field, name) {
  if (!field.getAttribute("aria-label")) field.setAttribute("aria-label", name);
}

function nameAll() {
  for (const pair of document.querySelectorAll(".datetime")) nameMoment(pair);
  for (const tip of document.querySelectorAll(".help-tooltip[aria-label]:not([role])")) tip.setAttribute("role", "img");
  for (const table of document.querySelectorAll(".tabular table, #result_list")) nameCells(table);
}

/** Names rows that are added, and parts that are drawn late: once for all changes of a tenth of a second. */
function nameLateParts() {
  let timer = 0;
  const observer = new MutationObserver(() => {
    timer ||= setTimeout(() => {
      timer = 0;
      nameAll();
    }, 100);
  });
  observer.observe(document.body, { childList: true, subtree: true });
}

// Django's scripts have drawn their lists by then.
addEventListener("load", () => {
  const query = ".change-form #content-main > form";
  const forms = /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll(query));
  for (const form of forms) watch(form);
  nameAll();
  nameLateParts();
});
