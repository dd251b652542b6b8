// The prompt library in the composer: “/” in an empty message opens a list; the keyboard chooses; places are filled in.
import { api, make, tell } from "./page.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

/** @typedef {{name: string, description: string, text: string, variables: string[]}} Prompt */
// A place in a prompt, such as {{ customer }}.
const PLACE = /\{\{\s*([a-z][a-z0-9_]{0,39})\s*\}\}/g;
const ARROWS = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 });
// Long enough for the click that took the focus away to reach a prompt in the list.
const CLICK_MS = 150;

/** The prompt with values in its places. @param {string} text @param {Record<string, string>} values */
export function filled(text, values) {
  return text.replace(PLACE, (whole, name) => values[name] ?? whole);
}

/**
 * Opens the list below the field while it holds “/” and a part of a name.
 * @param {HTMLElement} composer @param {HTMLTextAreaElement} text its field
 */
export function pickPrompts(composer, text) {
  const list = /** @type {HTMLElement} */ (composer.querySelector("#picker"));
  /** @type {Prompt[]} */
  let prompts = [];
  let chosen = 0;
  let searches = 0;
  const isOpen = () => !list.hidden;

  function close() {
    list.hidden = true;
    text.removeAttribute("aria-activedescendant");
    text.removeAttribute("aria-controls");
  }

  function draw() {
    const options = prompts.map(buildOption);
    list.replaceChildren(...options);
    if (!options.length) list.append(buildEmptyNote());
    // The field keeps the focus; screen readers are told which option the arrows have reached.
    if (options.length) text.setAttribute("aria-activedescendant", options[chosen].id);
    else text.removeAttribute("aria-activedescendant");
    options[chosen]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {Prompt} prompt @param {number} place */
  function buildOption(prompt, place) {
    const name = make("strong", { textContent: `/${prompt.name}` });
    const description = prompt.description || prompt.text.slice(0, 80);
    const words = make("span", { className: "small soft", textContent: description });
    const option = make("div", { id: `prompt-${place}` }, name, words);
    option.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    option.addEventListener("click", () => usePrompt(prompt));
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", String(place === chosen));
    return option;
  }

  function buildEmptyNote() {
    const link = make("a", { href: sitePath("/prompts/"), textContent: gettext("Write a prompt") });
    return make("p", { className: "none small" }, gettext("No prompt with this name."), " ", link);
  }

  async function search() {
    const words = /^\/([\w-]*)$/.exec(text.value)?.[1];
    if (words === undefined) {
      close();
      return;
    }
    searches += 1;
    const number = searches;
    const answer = await api(`prompts/?limit=50&search=${encodeURIComponent(words)}`).catch(() => null);
    if (number !== searches || !answer) return; // typed on in the meantime
    prompts = answer.results;
    chosen = 0;
    list.hidden = false;
    text.setAttribute("aria-controls", list.id);
    draw();
  }

  /** Puts the prompt into the message. @param {Prompt} prompt */
  async function usePrompt(prompt) {
    close();
    try {
      const values = prompt.variables.length ? await askForValues(prompt.variables) : {};
      if (values) text.value = filled(prompt.text, values);
    } catch (error) {
      tell(error.message);
    }
    text.focus();
  }

  text.addEventListener("input", search);
  text.addEventListener("blur", () => {
    setTimeout(() => {
      if (!composer.contains(document.activeElement)) close();
    }, CLICK_MS);
  });
  text.addEventListener("keydown", (event) => {
    if (!isOpen()) return;
    const step = ARROWS[event.key];
    const choosesPrompt = event.key === "Enter" || event.key === "Tab";
    // What closes the list waits for the other listeners of this key: they ask whether it is open.
    if (step && prompts.length) {
      chosen = (chosen + step + prompts.length) % prompts.length;
      draw();
    } else if (choosesPrompt && prompts.length) setTimeout(() => usePrompt(prompts[chosen]));
    else if (event.key === "Escape") setTimeout(close);
    else return;
    event.preventDefault();
  });
  return { isOpen };
}

/**
 * Asks in a dialog for what stands in the places.
 * @param {string[]} names @returns {Promise<Record<string, string> | null>} null if it was cancelled
 */
function askForValues(names) {
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("values"));
  const place = /** @type {HTMLElement} */ (dialog.querySelector("[data-values]"));
  const fields = names.map((name) => make("input", { id: `value-${name}`, required: true, autocomplete: "off" }));
  place.replaceChildren();
  names.forEach((name, index) => {
    place.append(make("label", { htmlFor: `value-${name}`, textContent: name }), fields[index]);
  });
  dialog.returnValue = "";
  dialog.showModal();
  fields[0].focus();
  return new Promise((resolve) => {
    function answer() {
      const values = Object.fromEntries(names.map((name, index) => [name, fields[index].value]));
      resolve(dialog.returnValue === "use" ? values : null);
    }
    dialog.addEventListener("close", answer, { once: true });
  });
}
