// What an agent may be given to read: each collection with its two tools, granted together by a click.
import { api, make } from "../page.js";
import { sitePath } from "../site.js";
import { gettext } from "../texts.js";

const VERBS = ["search", "fetch"];

export class Knowledge {
  /** @param {HTMLElement | null} list absent for people who may not change the agent @param {import("./tools.js").Tools} tools */
  constructor(list, tools) {
    this.list = list;
    this.tools = tools;
    /** @type {any[]} */
    this.collections = [];
  }

  async load() {
    if (!this.list) return;
    const answer = await api("collections/?limit=100").catch(() => ({ results: [] }));
    this.collections = answer.results;
    this.draw();
  }

  draw() {
    if (!this.list) return;
    const granted = new Set(this.tools.grants.map((one) => one.tool));
    const offered = this.collections.filter(({ name }) => VERBS.some((verb) => !granted.has(`${verb}-${name}`)));
    this.list.replaceChildren(...offered.map((one) => this.offer(one)));
    if (!offered.length) this.list.append(make("li", { className: "soft small", textContent: this.collections.length ? gettext("All collections are granted.") : gettext("There are no collections yet.") }));
  }

  /** @param {{name: string, description: string}} collection */
  offer({ name, description }) {
    const grant = make("button", { type: "button", textContent: gettext("Grant"), ariaLabel: gettext("Grant %(name)s", { name }), onclick: () => this.grant(name) });
    return make("li", { className: "tool" }, make("div", { className: "row between" }, make("a", { href: sitePath(`/collections/${name}/`), textContent: name }), grant), make("p", { className: "small soft", textContent: description }));
  }

  /** @param {string} name */
  async grant(name) {
    const granted = new Set(this.tools.grants.map((one) => one.tool));
    for (const verb of VERBS) if (!granted.has(`${verb}-${name}`)) this.tools.add(await api(`tools/${verb}-${name}`));
    this.draw();
  }
}
