// Names and landmarks that the admin's templates leave out, for screen readers.

/** @param {Element | null | undefined} element @param {string} name */
function name(element, name) {
  if (element && !element.getAttribute("aria-label")) element.setAttribute("aria-label", name);
}

function nameAll() {
  const main = document.getElementById("main");
  if (main) main.setAttribute("role", "main");
  for (const nav of document.querySelectorAll("nav#nav-sidebar-inner")) name(nav, "Main");
  document.querySelectorAll(".simplebar-content-wrapper[role=region]").forEach((one, number) => one.setAttribute("aria-label", `Scrolling part ${number + 1}`));
  for (const heading of document.querySelectorAll("th")) if (!heading.textContent.trim() && !heading.querySelector("input, button")) heading.setAttribute("role", "presentation");
  for (const tip of document.querySelectorAll(".help-tooltip[aria-label]:not([role])")) tip.setAttribute("role", "img");
  for (const box of document.querySelectorAll(".select2-selection")) nameSelect(box);
}

/** Select2 draws a field of its own beside the labelled one. @param {Element} box */
function nameSelect(box) {
  const field = box.closest(".select2-container")?.previousElementSibling;
  const label = field?.id && document.querySelector(`label[for="${CSS.escape(field.id)}"]`)?.textContent;
  const words = (label || field?.getAttribute("aria-label") || field?.getAttribute("name") || "Choice").replace(/\s+/g, " ").replace("*", "").trim();
  box.removeAttribute("aria-labelledby");
  box.setAttribute("aria-label", words);
  for (const one of box.querySelectorAll("[role=textbox]")) for (const extra of ["role", "aria-label", "aria-readonly"]) one.removeAttribute(extra);
}

addEventListener("load", () => {
  nameAll();
  // rows that are added, and parts that are drawn late
  let waiting = 0;
  new MutationObserver(() => { waiting ||= setTimeout(() => { waiting = 0; nameAll(); }, 100); }).observe(document.body, { childList: true, subtree: true });
});
