// The tools of an agent: what each does, whether it is allowed, asks or is denied, who decides; and the search for more.
import { api, make } from "../page.js";
import { sitePath } from "../site.js";
import { gettext, word } from "../texts.js";

/** @typedef {Record<string, any>} Grant as the API has it */

const MODES = /** @type {[string, string][]} */ ([["allow", gettext("Allow")], ["ask", gettext("Ask before each call")], ["deny", gettext("Deny")]]);
const DECIDERS = /** @type {[string, string][]} */ ([["starter", gettext("the person who talks to it")], ["owner", gettext("the owner of the agent")], ["team", gettext("its team, except viewers")], ["role", gettext("a role in its team")]]);
const OFFLINE = /** @type {[string, string][]} */ ([["fail", gettext("fail with a clear error")], ["wait", gettext("wait for the device")], ["any", gettext("use any device that offers it")]]);
const KINDS = /** @type {Record<string, string>} */ ({ function: gettext("stored function"), connector: gettext("connector"), device: gettext("device"), agent: gettext("agent"), chain: gettext("chain"), mcp: "MCP", http: "HTTP", a2a: gettext("remote agent"), skill: gettext("skill"), knowledge: gettext("knowledge"), builtin: gettext("built in") });

export class Tools {
  /** @param {HTMLElement} root @param {() => void} changed */
  constructor(root, changed) {
    this.list = /** @type {HTMLElement} */ (root.querySelector("[data-granted]"));
    this.found = /** @type {HTMLElement} */ (root.querySelector("[data-found]"));
    this.search = /** @type {HTMLInputElement | null} */ (root.querySelector("[data-tool-search]"));
    this.kind = /** @type {HTMLSelectElement | null} */ (root.querySelector("[data-tool-kind]"));
    this.isEditable = this.search !== null;
    this.changed = changed;
    /** @type {Grant[]} */
    this.grants = [];
    /** @type {Map<string, any>} what the catalogue says of a tool */
    this.about = new Map();
    let timer = 0;
    this.search?.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => this.look(), 250); });
    this.search?.addEventListener("focus", () => { if (!this.found.children.length) this.look(); });
    this.kind?.addEventListener("change", () => this.look());
  }

  /** @param {Grant[]} grants */
  async fill(grants) {
    this.grants = structuredClone(grants);
    this.draw();
    const unknown = grants.filter((one) => !this.about.has(one.tool));
    await Promise.all(unknown.slice(0, 60).map((one) => this.learn(one.tool)));
    if (unknown.length) this.draw();
  }

  /** @param {string} name */
  async learn(name) {
    this.about.set(name, await api(`tools/${encodeURIComponent(name)}`).catch(() => ({ name, description: gettext("You cannot see this tool any more."), effect: "" })));
  }

  read() { return this.grants; }

  draw() {
    const open = new Set([...this.list.querySelectorAll("details[open]")].map((one) => /** @type {HTMLElement} */ (one).dataset.tool));
    this.list.replaceChildren(...this.grants.map((grant) => this.card(grant, open.has(grant.tool))));
    if (!this.grants.length) this.list.append(make("li", { className: "soft", textContent: this.isEditable ? gettext("No tool yet. Search below and add one.") : gettext("No tool.") }));
  }

  /** @param {Grant} grant @param {boolean} isOpen */
  card(grant, isOpen) {
    const about = this.about.get(grant.tool) ?? {};
    const mode = this.choice(grant, "mode", gettext("Calls"), MODES);
    const more = make("details", { className: "fold small", open: isOpen }, make("summary", { textContent: gettext("More settings") }), ...this.settings(grant));
    more.dataset.tool = grant.tool;
    const remove = make("button", { type: "button", className: "quiet small", textContent: gettext("Remove"), ariaLabel: gettext("Remove %(tool)s", { tool: grant.tool }), onclick: () => this.remove(grant) });
    const head = make("div", { className: "row between" }, make("span", { className: "row" }, link(grant), ...pills(grant.kind, about.effect)), this.isEditable ? remove : null);
    return make("li", { className: "tool" }, head, make("p", { className: "small soft", textContent: about.description ?? "" }),
      make("div", { className: "row" }, mode, ...(grant.mode === "ask" ? [this.choice(grant, "decides", gettext("Who decides"), DECIDERS)] : [])), more);
  }

  /** @param {Grant} grant */
  settings(grant) {
    const found = [
      ...(grant.decides === "role" ? [this.text(grant, "decider_role", gettext("Role in the team"), "text")] : []),
      this.tick(grant, "not_starter", gettext("The person whose run asks may not decide")),
      this.tick(grant, "allow_after_untrusted", gettext("Never ask because a stranger's text was read")),
      this.text(grant, "deadline_s", gettext("Time limit of a call in seconds"), "number"),
      ...(["function", "skill"].includes(grant.kind) ? [this.text(grant, "version", gettext("Version (empty: the live one)"), "number")] : []),
      ...(grant.kind === "device" ? [this.choice(grant, "offline", gettext("If the device is away"), OFFLINE)] : []),
    ];
    return [make("div", { className: "form" }, ...found)];
  }

  /** @param {Grant} grant @param {string} name @param {string} words @param {[string, string][]} options */
  choice(grant, name, words, options) {
    const select = make("select", { disabled: !this.isEditable }, ...options.map(([value, label]) => make("option", { value, textContent: label, selected: grant[name] === value })));
    select.ariaLabel = `${words}: ${grant.tool}`;
    select.dataset.choice = name;
    select.addEventListener("change", () => this.set(grant, name, select.value));
    return make("label", { className: "small pick" }, `${words} `, select);
  }

  /** @param {Grant} grant @param {string} name @param {string} words @param {string} type */
  text(grant, name, words, type) {
    const input = make("input", { type, value: grant[name] ?? "", disabled: !this.isEditable, step: "any" });
    input.addEventListener("change", () => this.set(grant, name, type === "number" ? (input.value === "" ? null : Number(input.value)) : input.value));
    return make("label", {}, words, input);
  }

  /** @param {Grant} grant @param {string} name @param {string} words */
  tick(grant, name, words) {
    const input = make("input", { type: "checkbox", checked: Boolean(grant[name]), disabled: !this.isEditable });
    input.addEventListener("change", () => this.set(grant, name, input.checked));
    return make("label", { className: "small" }, input, ` ${words}`);
  }

  /** @param {Grant} grant @param {string} name @param {any} value */
  set(grant, name, value) {
    grant[name] = value;
    const at = this.grants.indexOf(grant);
    if (name === "mode" || name === "decides") {
      this.draw();
      /** @type {HTMLElement | null} */ (this.list.children[at]?.querySelector(`select[data-choice="${name}"]`))?.focus();
    }
    this.changed();
  }

  /** @param {Grant} grant */
  remove(grant) {
    this.grants = this.grants.filter((one) => one !== grant);
    this.draw();
    this.search?.focus();
    this.changed();
    this.look();
  }

  async look() {
    if (!this.isEditable) return;
    const query = new URLSearchParams({ limit: "20", enabled: "true" });
    if (this.search?.value.trim()) query.set("search", this.search.value.trim());
    if (this.kind?.value) query.set("kind", this.kind.value);
    const asked = query.toString();
    this.asked = asked;
    const answer = await api(`tools/?${asked}`).catch((error) => ({ results: [], error }));
    if (this.asked !== asked) return;
    const granted = new Set(this.grants.map((one) => one.tool));
    const tools = answer.results.filter((/** @type {any} */ one) => !granted.has(one.name));
    this.found.replaceChildren(...tools.map((/** @type {any} */ tool) => this.offer(tool)));
    if (!tools.length) this.found.append(make("li", { className: "soft small", textContent: answer.error?.message ?? gettext("Nothing else matches.") }));
  }

  /** @param {any} tool */
  offer(tool) {
    const add = make("button", { type: "button", textContent: gettext("Add"), ariaLabel: gettext("Add %(name)s", { name: tool.name }), onclick: () => this.add(tool) });
    return make("li", { className: "tool" }, make("div", { className: "row between" }, make("span", { className: "row" }, make("b", { textContent: tool.name }), ...pills(tool.kind, tool.effect)), add), make("p", { className: "small soft", textContent: tool.description }));
  }

  /** @param {any} tool What cannot be undone asks, unless somebody decides otherwise. */
  add(tool) {
    this.about.set(tool.name, tool);
    this.grants.push({ tool: tool.name, kind: tool.kind, mode: tool.effect === "destructive" ? "ask" : "allow", decides: "starter", offline: "fail", context: [], decider_role: "", not_starter: false, allow_after_untrusted: false, version: null, deadline_s: null });
    this.draw();
    this.changed();
    this.look();
    /** @type {HTMLElement | null} */ (this.list.lastElementChild?.querySelector("select"))?.focus();
  }
}

/** @param {Grant} grant */
function link(grant) {
  const pages = /** @type {Record<string, string>} */ ({ function: "functions", agent: "agents", chain: "chains", skill: "skills" });
  const page = pages[grant.kind];
  return page ? make("a", { href: sitePath(`/${page}/${grant.tool}/`), textContent: grant.tool }) : make("b", { textContent: grant.tool });
}

/** @param {string} kind @param {string} effect */
function pills(kind, effect) {
  return [make("span", { className: "small soft", textContent: [KINDS[kind] ?? kind, word(effect ?? "")].filter(Boolean).join(" · ") })];
}
