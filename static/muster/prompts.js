// The prompt library in the composer: “/” in an empty message opens a list; the keyboard chooses; places are filled in.
import { api, make, tell } from "./page.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

/** @typedef {{name: string, description: string, text: string, variables: string[]}} Prompt */
const PLACE = /\{\{\s*([a-z][a-z0-9_]{0,39})\s*\}\}/g;

/** @param {string} text @param {Record<string, string>} values */
export const filled = (text, values) => text.replace(PLACE, (whole, name) => values[name] ?? whole);

/** @param {HTMLElement} composer @param {HTMLTextAreaElement} text */
export function pickPrompts(composer, text) {
  const list = /** @type {HTMLElement} */ (composer.querySelector("#picker"));
  /** @type {Prompt[]} */
  let shown = [];
  let chosen = 0;
  let asked = 0;
  const isOpen = () => !list.hidden;

  function close() {
    list.hidden = true;
    text.removeAttribute("aria-activedescendant");
    text.removeAttribute("aria-controls");
  }

  function draw() {
    const options = shown.map((one, place) => {
      const option = make("div", { id: `prompt-${place}`, onmousedown: (/** @type {Event} */ event) => event.preventDefault(), onclick: () => use(one) },
        make("strong", { textContent: `/${one.name}` }), make("span", { className: "small soft", textContent: one.description || one.text.slice(0, 80) }));
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", String(place === chosen));
      return option;
    });
    const manage = make("a", { href: sitePath("/prompts/"), textContent: gettext("Write a prompt") });
    list.replaceChildren(...options, ...(options.length ? [] : [make("p", { className: "none small" }, gettext("No prompt with this name."), " ", manage)]));
    if (options.length) text.setAttribute("aria-activedescendant", `prompt-${chosen}`);
    else text.removeAttribute("aria-activedescendant");
    options[chosen]?.scrollIntoView({ block: "nearest" });
  }

  async function look() {
    const words = /^\/([\w-]*)$/.exec(text.value)?.[1];
    if (words === undefined) { close(); return; }
    const mine = asked += 1;
    const found = await api(`prompts/?limit=50&search=${encodeURIComponent(words)}`).catch(() => null);
    if (mine !== asked || !found) return; // typed on in the meantime
    shown = found.results;
    chosen = 0;
    list.hidden = false;
    text.setAttribute("aria-controls", list.id);
    draw();
  }

  /** @param {Prompt} prompt */
  async function use(prompt) {
    close();
    try {
      const values = prompt.variables.length ? await askFor(prompt.variables) : {};
      if (values) text.value = filled(prompt.text, values);
    } catch (error) { tell(/** @type {Error} */ (error).message); }
    text.focus();
  }

  text.addEventListener("input", look);
  text.addEventListener("blur", () => setTimeout(() => { if (!composer.contains(document.activeElement)) close(); }, 150));
  text.addEventListener("keydown", (event) => {
    if (!isOpen()) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) { chosen = (chosen + step + shown.length) % shown.length; draw(); }
    else if ((event.key === "Enter" || event.key === "Tab") && shown.length) setTimeout(() => use(shown[chosen]));
    else if (event.key === "Escape") setTimeout(close);
    else return;
    event.preventDefault();
  });
  return { isOpen };
}

/** @param {string[]} names @returns {Promise<Record<string, string> | null>} null if it was cancelled */
function askFor(names) {
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("values"));
  const place = /** @type {HTMLElement} */ (dialog.querySelector("[data-values]"));
  const fields = names.map((name) => make("input", { id: `value-${name}`, required: true, autocomplete: "off" }));
  place.replaceChildren(...names.flatMap((name, index) => [make("label", { htmlFor: `value-${name}`, textContent: name }), fields[index]]));
  dialog.returnValue = "";
  dialog.showModal();
  fields[0].focus();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "use" ? Object.fromEntries(names.map((name, index) => [name, fields[index].value])) : null), { once: true }));
}
