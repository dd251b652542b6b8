// Tabs by the ARIA pattern: arrows move, the hash remembers.
for (const list of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[role=tablist]"))) {
  const tabs = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role=tab]")]);
  const tabOf = (/** @type {Event} */ event) => /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[role=tab]"));
  const show = (/** @type {HTMLElement} */ tab, focus = false) => {
    for (const one of tabs) {
      const chosen = one === tab;
      one.setAttribute("aria-selected", String(chosen));
      one.tabIndex = chosen ? 0 : -1;
      /** @type {HTMLElement} */ (document.getElementById(one.getAttribute("aria-controls") ?? "")).hidden = !chosen;
    }
    if (focus) tab.focus();
    history.replaceState(null, "", `#${tab.id}`);
    tab.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
  };
  list.addEventListener("click", (event) => { const tab = tabOf(event); if (tab) show(tab); });
  list.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const tab = tabOf(event);
    const place = tab ? tabs.indexOf(tab) : -1;
    if (step && place >= 0) { event.preventDefault(); show(tabs[(place + step + tabs.length) % tabs.length], true); }
  });
  const remembered = tabs.find((tab) => `#${tab.id}` === location.hash);
  if (remembered) show(remembered);
}
