// The tools of an agent or a chain: whether each is allowed, asks or is denied, who decides; and the search for more.
import { api, make } from "../page.js";
import { sitePath } from "../site.js";
import { gettext, word } from "../texts.js";

/** @typedef {Record<string, any>} Grant as the API has it */
/** @typedef {[value: string, words: string][]} Choices */

/** @returns {Choices} */
export const modeChoices = () => [["allow", gettext("Allow")], ["ask", gettext("Ask before each call")], ["deny", gettext("Deny")]];
/** @returns {Choices} */
const deciderChoices = () => [["starter", gettext("the person who talks to it")], ["owner", gettext("the owner of the agent")], ["team", gettext("its team, except viewers")], ["role", gettext("a role in its team")]];
/** @returns {Choices} */
const offlineChoices = () => [["fail", gettext("fail with a clear error")], ["wait", gettext("wait for the device")], ["any", gettext("use any device that offers it")]];
/** @returns {Record<string, string>} */
const kindsInWords = () => ({ function: gettext("stored function"), connector: gettext("connector"), device: gettext("device"), agent: gettext("agent"), chain: gettext("chain"), mcp: "MCP", http: "HTTP", a2a: gettext("remote agent"), skill: gettext("skill"), knowledge: gettext("knowledge"), builtin: gettext("built in") });
const PAGES = /** @type {Record<string, string>} */ ({ function: "functions", agent: "agents", chain: "chains", skill: "skills" });
const TYPING_MS = 250;
const MAX_LEARNED = 60;

/** A grant of a tool that has none yet. What cannot be undone asks, unless somebody decides otherwise. @param {any} tool of the catalogue @returns {Grant} */
export function makeGrant(tool) {
  const mode = tool.effect === "destructive" ? "ask" : "allow";
  return { tool: tool.name, kind: tool.kind, mode, decides: "starter", offline: "fail", context: [], decider_role: "", not_starter: false, allow_after_untrusted: false, version: null, deadline_s: null };
}

export class Tools {
  /** @param {HTMLElement} root @param {() => void} onChange */
  constructor(root, onChange) {
    this.list = /** @type {HTMLElement} */ (root.querySelector("[data-granted]"));
    this.offers = /** @type {HTMLElement} */ (root.querySelector("[data-found]"));
    this.search = /** @type {HTMLInputElement | null} */ (root.querySelector("[data-tool-search]"));
    this.kind = /** @type {HTMLSelectElement | null} */ (root.querySelector("[data-tool-kind]"));
    this.isEditable = this.search !== null;
    this.onChange = onChange;
    /** @type {Grant[]} */
    this.grants = [];
    /** @type {Map<string, any>} what the catalogue says of a tool */
    this.catalogue = new Map();
    /** Tools that have a row of their own elsewhere on the page. @type {(name: string) => boolean} */
    this.isElsewhere = () => false;
    let timer = 0;
    this.search?.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.look(), TYPING_MS);
    });
    this.search?.addEventListener("focus", () => {
      if (!this.offers.children.length) this.look();
    });
    this.kind?.addEventListener("change", () => this.look());
  }

  /** @param {Grant[]} grants */
  async fill(grants) {
    this.grants = structuredClone(grants);
    this.draw();
    const unknown = grants.filter((grant) => !this.catalogue.has(grant.tool));
    await Promise.all(unknown.slice(0, MAX_LEARNED).map((grant) => this.learn(grant.tool)));
    if (unknown.length) this.draw();
  }

  /** @param {string} name */
  async learn(name) {
    const gone = { name, description: gettext("You cannot see this tool any more."), effect: "" };
    this.catalogue.set(name, await api(`tools/${encodeURIComponent(name)}`).catch(() => gone));
  }

  read() { return this.grants; }

  /** @param {string} name */
  grantOf(name) { return this.grants.find((grant) => grant.tool === name); }

  draw() {
    const folds = /** @type {HTMLElement[]} */ ([...this.list.querySelectorAll("details[open]")]);
    const open = new Set(folds.map((fold) => fold.dataset.tool));
    const shown = this.grants.filter((grant) => !this.isElsewhere(grant.tool));
    this.list.replaceChildren(...shown.map((grant) => this.makeCard(grant, open.has(grant.tool))));
    if (shown.length) return;
    const words = this.isEditable ? gettext("No tool yet. Search below and add one.") : gettext("No tool.");
    this.list.append(make("li", { className: "soft", textContent: words }));
  }

  /** @param {Grant} grant @param {boolean} isOpen */
  makeCard(grant, isOpen) {
    const about = this.catalogue.get(grant.tool) ?? {};
    const more = make("details", { className: "fold small", open: isOpen }, make("summary", { textContent: gettext("More settings") }), make("div", { className: "form" }, ...this.makeSettings(grant)));
    more.dataset.tool = grant.tool;
    const remove = make("button", { type: "button", className: "quiet small", textContent: gettext("Remove"), ariaLabel: gettext("Remove %(tool)s", { tool: grant.tool }), onclick: () => this.remove(grant) });
    const name = make("span", { className: "row" }, makeLink(grant), describeTool(grant.kind, about.effect));
    const mode = this.makeChoice(grant, "mode", gettext("Calls"), modeChoices());
    const head = make("div", { className: "row between" }, name, make("span", { className: "row" }, mode, this.isEditable ? remove : null));
    const asks = grant.mode === "ask" ? this.makeChoice(grant, "decides", gettext("Who decides"), deciderChoices()) : null;
    const description = make("p", { className: "small soft brief", textContent: about.description ?? "", title: about.description ?? "" });
    return make("li", { className: "tool" }, head, description, asks, more);
  }

  /** @param {Grant} grant @returns {Node[]} */
  makeSettings(grant) {
    const settings = [];
    if (grant.decides === "role") settings.push(this.makeText(grant, "decider_role", gettext("Role in the team"), "text"));
    settings.push(this.makeTick(grant, "not_starter", gettext("The person whose run asks may not decide")));
    settings.push(this.makeTick(grant, "allow_after_untrusted", gettext("Never ask because a stranger's text was read")));
    settings.push(this.makeText(grant, "deadline_s", gettext("Time limit of a call in seconds"), "number"));
    const hasVersions = ["function", "skill"].includes(grant.kind);
    if (hasVersions) settings.push(this.makeText(grant, "version", gettext("Version (empty: the live one)"), "number"));
    if (grant.kind === "device") settings.push(this.makeChoice(grant, "offline", gettext("If the device is away"), offlineChoices()));
    return settings;
  }

  /** @param {Grant} grant @param {string} name @param {string} words @param {Choices} choices */
  makeChoice(grant, name, words, choices) {
    const select = make("select", { disabled: !this.isEditable, ariaLabel: `${words}: ${grant.tool}` });
    // What is called "Allow" or "Ask" needs no word beside it.
    const title = name === "mode" ? "" : `${words} `;
    for (const [value, label] of choices) select.append(make("option", { value, textContent: label, selected: grant[name] === value }));
    select.dataset.choice = name;
    select.dataset.tool = grant.tool;
    select.addEventListener("change", () => this.set(grant, name, select.value));
    return make("label", { className: "small pick" }, title, select);
  }

  /** @param {Grant} grant @param {string} name @param {string} words @param {string} type */
  makeText(grant, name, words, type) {
    const input = make("input", { type, value: grant[name] ?? "", disabled: !this.isEditable, step: "any" });
    input.addEventListener("change", () => {
      const number = input.value === "" ? null : Number(input.value);
      this.set(grant, name, type === "number" ? number : input.value);
    });
    return make("label", {}, words, input);
  }

  /** @param {Grant} grant @param {string} name @param {string} words */
  makeTick(grant, name, words) {
    const input = make("input", { type: "checkbox", checked: Boolean(grant[name]), disabled: !this.isEditable });
    input.addEventListener("change", () => this.set(grant, name, input.checked));
    return make("label", { className: "small" }, input, ` ${words}`);
  }

  /** @param {Grant} grant @param {string} name @param {any} value */
  set(grant, name, value) {
    grant[name] = value;
    // The card has other fields then.
    if (name === "mode" || name === "decides") {
      this.draw();
      this.focusChoice(grant.tool, name);
    }
    this.onChange();
  }

  /** @param {string} tool @param {string} choice */
  focusChoice(tool, choice) {
    const selects = /** @type {HTMLElement[]} */ ([...this.list.querySelectorAll(`select[data-choice="${choice}"]`)]);
    selects.find((select) => select.dataset.tool === tool)?.focus();
  }

  /** @param {Grant} grant */
  remove(grant) {
    this.take([grant.tool]);
    this.search?.focus();
  }

  /** @param {string[]} names of tools that are granted no more */
  take(names) {
    this.grants = this.grants.filter((grant) => !names.includes(grant.tool));
    this.draw();
    this.onChange();
    this.look();
  }

  /** @param {string[]} names of tools that are granted, if they are not yet */
  async give(names) {
    for (const name of names) {
      if (this.grantOf(name)) continue;
      const tool = await api(`tools/${encodeURIComponent(name)}`);
      this.catalogue.set(name, tool);
      if (!this.grantOf(name)) this.grants.push(makeGrant(tool));
    }
    this.draw();
    this.onChange();
    this.look();
  }

  async look() {
    if (!this.isEditable) return;
    const query = new URLSearchParams({ limit: "20", enabled: "true" });
    if (this.search?.value.trim()) query.set("search", this.search.value.trim());
    if (this.kind?.value) query.set("kind", this.kind.value);
    const request = query.toString();
    this.lastRequest = request;
    const answer = await api(`tools/?${request}`).catch((error) => ({ results: [], error }));
    // Something else was typed meanwhile.
    if (this.lastRequest !== request) return;
    const tools = answer.results.filter((/** @type {any} */ tool) => !this.grantOf(tool.name));
    this.offers.replaceChildren(...tools.map((/** @type {any} */ tool) => this.makeOffer(tool)));
    if (tools.length) return;
    const words = answer.error?.message ?? gettext("Nothing else matches.");
    this.offers.append(make("li", { className: "soft small", textContent: words }));
  }

  /** @param {any} tool */
  makeOffer(tool) {
    const add = make("button", { type: "button", textContent: gettext("Add"), ariaLabel: gettext("Add %(name)s", { name: tool.name }), onclick: () => this.add(tool) });
    const name = make("span", { className: "row" }, make("b", { textContent: tool.name }), describeTool(tool.kind, tool.effect));
    const description = make("p", { className: "small soft brief", textContent: tool.description, title: tool.description });
    return make("li", { className: "tool" }, make("div", { className: "row between" }, name, add), description);
  }

  /** @param {any} tool */
  add(tool) {
    this.catalogue.set(tool.name, tool);
    this.grants.push(makeGrant(tool));
    this.draw();
    this.onChange();
    this.look();
    this.focusChoice(tool.name, "mode");
  }
}

/** @param {Grant} grant */
function makeLink(grant) {
  const page = PAGES[grant.kind];
  if (!page) return make("b", { textContent: grant.tool });
  return make("a", { href: sitePath(`/${page}/${grant.tool}/`), textContent: grant.tool });
}

/** @param {string} kind @param {string} effect */
function describeTool(kind, effect) {
  const words = [kindsInWords()[kind] ?? kind, word(effect ?? "")].filter(Boolean).join(" · ");
  return make("span", { className: "small soft", textContent: words });
}
