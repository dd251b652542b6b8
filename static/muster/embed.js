// The one script that a page includes, served at /embed.js. It loads the modules of the chat from the server that it
// came from, when the page has been read.
(() => {
  // Only known while the script itself runs.
  const script = /** @type {HTMLScriptElement} */ (document.currentScript);

  async function start() {
    const server = new URL(".", script.src).href.slice(0, -1);
    const widget = await import(new URL("./static/muster/embed/widget.js", script.src).href);
    await widget.mount({ ...script.dataset, server });
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start, { once: true });
  else start();
})();
