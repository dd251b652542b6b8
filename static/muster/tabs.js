// Tabs by the ARIA pattern: the arrows of the keyboard move, and the address remembers the tab after its “#”.

const ARROWS = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1 });

for (const list of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[role=tablist]"))) {
  const tabs = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role=tab]")]);

  list.addEventListener("click", (event) => {
    const tab = findTab(event);
    if (tab) show(tabs, tab);
  });
  list.addEventListener("keydown", (event) => {
    const step = ARROWS[event.key];
    const tab = findTab(event);
    if (!step || !tab) return;
    event.preventDefault();
    const place = tabs.indexOf(tab) + step + tabs.length; // from the last one to the first
    const next = tabs[place % tabs.length];
    show(tabs, next);
    next.focus();
  });
  const remembered = tabs.find((tab) => `#${tab.id}` === location.hash);
  if (remembered) show(tabs, remembered);
}

/** @param {Event} event */
function findTab(event) {
  const target = /** @type {Element} */ (event.target);
  return /** @type {HTMLElement | null} */ (target.closest("[role=tab]"));
}

/** Shows the panel of one tab and hides those of the others. @param {HTMLElement[]} tabs @param {HTMLElement} chosen */
function show(tabs, chosen) {
  for (const tab of tabs) {
    const isChosen = tab === chosen;
    const panel = /** @type {HTMLElement} */ (document.getElementById(tab.getAttribute("aria-controls") ?? ""));
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1; // the Tab key goes to the chosen one only, as the pattern wants
    panel.hidden = !isChosen;
  }
  history.replaceState(null, "", `#${chosen.id}`);
  chosen.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
}
