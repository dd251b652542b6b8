// The read-only link of a conversation: make it, copy it, void it.
import { api, copy } from "./page.js";
import { gettext } from "./texts.js";

/** @param {() => string | null} session of the conversation on this page */
export function offerSharing(session) {
  const open = /** @type {HTMLButtonElement | null} */ (document.querySelector("[data-share]"));
  const dialog = /** @type {HTMLDialogElement | null} */ (document.getElementById("sharing"));
  if (!open || !dialog) return;
  const part = (/** @type {string} */ name) => /** @type {any} */ (dialog.querySelector(`[data-${name}]`));
  const field = /** @type {HTMLInputElement} */ (dialog.querySelector("#shared-link"));
  /** The links that this page knows, by session. @type {Map<string, any>} */
  const links = new Map([[dialog.dataset.session ?? "", JSON.parse(document.getElementById("shared-now")?.textContent ?? "null")]]);
  const path = () => `sessions/${session()}/share`;

  /** @param {{url: string, shows_tools: boolean} | null} link */
  function draw(link) {
    part("link").hidden = part("revoke").hidden = !link;
    field.value = link?.url ?? "";
    if (link) part("tools").checked = link.shows_tools;
    part("make").textContent = link ? gettext("Share the messages up to now") : gettext("Create the link");
  }

  /** @param {() => Promise<any>} work */
  async function during(work) {
    part("wrong").textContent = "";
    try {
      const link = await work();
      links.set(session() ?? "", link);
      draw(link);
    } catch (error) { part("wrong").textContent = /** @type {Error} */ (error).message; }
  }

  document.addEventListener("talked", () => { open.hidden = false; });
  open.addEventListener("click", () => {
    part("wrong").textContent = "";
    draw(links.get(session() ?? "") ?? null);
    dialog.showModal();
  });
  part("make").addEventListener("click", () => during(() => api(path(), { method: "PUT", body: { shows_tools: part("tools").checked } })));
  part("revoke").addEventListener("click", () => during(() => api(path(), { method: "DELETE" })));
  part("copy-link").addEventListener("click", () => copy(field.value, part("copy-link")));
}
