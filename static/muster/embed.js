// The one script that a page includes, served at /embed.js. It loads the modules of the chat from the server that it came from.
(() => {
  const script = /** @type {HTMLScriptElement} */ (document.currentScript);
  const begin = () => import(new URL("./static/muster/embed/widget.js", script.src).href).then(({ mount }) => mount({ ...script.dataset, server: new URL(".", script.src).href.slice(0, -1) }));
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin, { once: true });
  else begin();
})();
