// Tabs by the ARIA pattern: arrows move, the hash remembers.
for (const list of document.querySelectorAll("[role=tablist]")) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const show = (tab, focus) => {
    for (const one of tabs) {
      const chosen = one === tab;
      one.setAttribute("aria-selected", chosen);
      one.tabIndex = chosen ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
    history.replaceState(null, "", `#${tab.id}`);
    tab.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
  };
  list.addEventListener("click", (event) => { const tab = event.target.closest("[role=tab]"); if (tab) show(tab); });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const place = tabs.indexOf(event.target.closest("[role=tab]"));
    if (step && place >= 0) { event.preventDefault(); show(tabs[(place + step + tabs.length) % tabs.length], true); }
  });
  const remembered = tabs.find((tab) => `#${tab.id}` === location.hash);
  if (remembered) show(remembered);
}
