// A dialog in which one thing is searched and picked, by keyboard or mouse; and what the steps of a chain can run.
import { api, make } from "../page.js";
import { gettext } from "../texts.js";

/** @typedef {{label: string, detail?: string, group?: string, value: any}} Option */

const dialog = make("dialog", { className: "step-picker" });
const title = make("h2", { id: "picker-title" });
const search = make("input", { type: "search", id: "picker-search", autocomplete: "off", spellcheck: false });
const list = make("ul", { id: "picker-list", role: "listbox" });
const status = make("p", { className: "small soft", role: "status" });
for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "true", "aria-controls": "picker-list", "aria-autocomplete": "list", "aria-labelledby": "picker-title" })) search.setAttribute(name, value);
dialog.setAttribute("aria-labelledby", "picker-title");
list.setAttribute("aria-labelledby", "picker-title");
dialog.append(make("div", { className: "stack" }, title, search, list, status, make("div", {}, make("button", { type: "button", textContent: gettext("Cancel"), onclick: () => dialog.close() }))));
document.body.append(dialog);

/** @type {Option[]} */
let options = [];
let active = 0;
let asked = 0;
let picked = /** @type {any} */ (null);

function draw() {
  let group = "";
  list.replaceChildren(...options.flatMap((option, index) => {
    const head = option.group && option.group !== group ? [make("li", { role: "presentation", className: "group small", textContent: option.group })] : [];
    group = option.group ?? "";
    const line = make("li", { role: "option", id: `option-${index}` }, make("b", { textContent: option.label }), make("span", { className: "small soft", textContent: option.detail ?? "" }));
    line.addEventListener("click", () => choose(index));
    return [...head, line];
  }));
  highlight(0);
}

/** @param {number} index */
function highlight(index) {
  active = Math.max(0, Math.min(options.length - 1, index));
  for (const line of list.querySelectorAll("[role=option]")) line.setAttribute("aria-selected", String(line.id === `option-${active}`));
  const line = document.getElementById(`option-${active}`);
  if (line) search.setAttribute("aria-activedescendant", line.id);
  else search.removeAttribute("aria-activedescendant");
  line?.scrollIntoView({ block: "nearest" });
}

/** @param {number} index */
function choose(index) {
  if (!options[index]) return;
  picked = options[index].value;
  dialog.close();
}

search.addEventListener("keydown", (event) => {
  const by = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 })[event.key];
  if (by) { event.preventDefault(); highlight(active + by); }
  if (event.key === "Enter") { event.preventDefault(); choose(active); }
});

/**
 * @param {{title: string, find: (text: string) => Promise<Option[]> | Option[], empty?: string}} about
 * @returns {Promise<any>} the value of the picked option, or null
 */
export function pick({ title: words, find, empty = gettext("Nothing matches.") }) {
  title.textContent = words;
  search.value = "";
  picked = null;
  let timer = 0;
  const look = async () => {
    const mine = (asked += 1);
    status.textContent = gettext("Searching…");
    const found = await Promise.resolve(find(search.value.trim())).catch((/** @type {Error} */ error) => error);
    if (mine !== asked) return;
    options = found instanceof Error ? [] : found;
    status.textContent = found instanceof Error ? found.message : options.length ? gettext("%(number)s to choose from", { number: options.length }) : empty;
    draw();
  };
  search.oninput = () => { clearTimeout(timer); timer = setTimeout(look, 150); };
  options = [];
  draw();
  look();
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  dialog.showModal();
  search.focus();
  return new Promise((resolve) => dialog.addEventListener("close", () => {
    clearTimeout(timer);
    asked += 1;
    before?.focus({ preventScroll: true });
    resolve(picked);
  }, { once: true }));
}

// -- what a step can run ------------------------------------------------------------------------------------------------

const ROUTER = { label: gettext("An agent chosen by the router"), detail: gettext("by the words of the message"), group: gettext("Agents"), value: { kind: "router", name: "" } };
const HIDDEN = new Set(["agent", "chain"]); // as tools of the catalogue; they are offered as what they are

/** @param {string} own the chain that is edited @param {string} text @returns {Promise<Option[]>} */
export async function targets(own, text) {
  const query = new URLSearchParams({ limit: "30", ...(text ? { search: text } : {}) });
  const [agents, tools, chains] = await Promise.all(["agents", "tools", "chains"].map((kind) => api(`${kind}/?${query}`).then((answer) => answer.results)));
  const one = (/** @type {string} */ kind, /** @type {string} */ group) => (/** @type {any} */ row) => ({ label: row.name, detail: row.description ?? "", group, value: { kind, name: row.name, effect: row.effect, toolKind: row.kind } });
  const enabled = (/** @type {any} */ row) => row.enabled !== false;
  return [
    ...agents.filter(enabled).map(one("agent", gettext("Agents"))),
    ...("router an agent chosen".includes(text.toLowerCase()) ? [ROUTER] : []),
    ...tools.filter((/** @type {any} */ row) => enabled(row) && !HIDDEN.has(row.kind)).map(one("tool", gettext("Tools"))),
    ...chains.filter((/** @type {any} */ row) => enabled(row) && row.name !== own).map(one("chain", gettext("Chains"))),
  ];
}

const MESSAGE = { type: "string", description: gettext("What the agent is asked.") };

/** @typedef {{input: any, output: any, description: string, effect: string, kind: string, missing: boolean}} About schemas of a target */

export class Catalog {
  constructor() {
    /** @type {Map<string, Promise<About>>} */
    this.known = new Map();
  }

  /** @param {string} kind @param {string} name @returns {Promise<About>} */
  about(kind, name) {
    const id = `${kind}/${name}`;
    let found = this.known.get(id);
    if (!found) {
      found = this.ask(kind, name).catch(() => ({ input: null, output: null, description: "", effect: "", kind: "", missing: true }));
      this.known.set(id, found);
    }
    return found;
  }

  /** @param {string} kind @param {string} name @returns {Promise<About>} */
  async ask(kind, name) {
    if (kind === "router") return { input: { properties: { message: MESSAGE }, required: ["message"] }, output: null, description: gettext("The router chooses the agent that fits the message best."), effect: "", kind: "", missing: false };
    if (!name) return { input: null, output: null, description: "", effect: "", kind: "", missing: true };
    const row = await api(`${kind}s/${encodeURIComponent(name)}`);
    const { input_schema: own, output_schema: output = null, description = "", effect = "" } = row;
    const input = kind === "agent" ? { properties: { message: MESSAGE, ...(own?.properties ?? {}) }, required: ["message", ...(own?.required ?? [])] } : own;
    return { input, output: output ?? (kind === "agent" ? { type: "string" } : null), description, effect, kind: row.kind ?? "", missing: false };
  }
}
