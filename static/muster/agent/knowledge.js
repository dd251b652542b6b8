// What an agent may read and remember: one row for each collection with its two tools, and one switch for memory.
import { api, make, tell } from "../page.js";
import { sitePath } from "../site.js";
import { gettext } from "../texts.js";

const VERBS = ["search", "fetch"];
const MEMORY_TOOLS = ["remember", "recall", "forget"];

/** @typedef {{name: string, description: string}} Collection */

/** @param {string} collection */
const toolsOf = (collection) => VERBS.map((verb) => `${verb}-${collection}`);

export class Knowledge {
  /** @param {HTMLElement | null} list absent for people who may not change the agent @param {import("./tools.js").Tools} tools */
  constructor(list, tools) {
    this.list = list;
    this.tools = tools;
    /** @type {Collection[]} */
    this.collections = [];
  }

  async load() {
    if (!this.list) return;
    const answer = await api("collections/?limit=100").catch(() => ({ results: [] }));
    this.collections = answer.results;
    this.draw();
    this.tools.draw();
  }

  /** @param {string} tool @returns {boolean} whether a row of a collection shows it */
  hasRowFor(tool) { return this.collections.some(({ name }) => toolsOf(name).includes(tool)); }

  draw() {
    if (!this.list) return;
    this.list.replaceChildren(...this.collections.map((collection) => this.makeRow(collection)));
    if (this.collections.length) return;
    const link = make("a", { href: sitePath("/collections/"), textContent: gettext("Make one") });
    this.list.append(make("li", { className: "soft small" }, `${gettext("There are no collections yet.")} `, link));
  }

  /** @param {Collection} collection */
  makeRow({ name, description }) {
    const tick = make("input", { type: "checkbox", checked: toolsOf(name).some((tool) => this.tools.grantOf(tool)), ariaLabel: gettext("The agent reads %(name)s", { name }) });
    tick.addEventListener("change", async () => {
      try {
        if (tick.checked) await this.tools.give(toolsOf(name));
        else this.tools.take(toolsOf(name));
      } catch (error) {
        tell(/** @type {Error} */ (error).message);
      }
    });
    const link = make("a", { href: sitePath(`/collections/${name}/`), textContent: name });
    const words = make("span", { className: "small soft brief", textContent: description, title: description });
    return make("li", { className: "collection-row" }, tick, make("div", {}, link, words));
  }
}

export class Memory {
  /** @param {HTMLInputElement | null} tick @param {HTMLSelectElement} mode the field of the agent: off, suggest or auto @param {import("./tools.js").Tools} tools */
  constructor(tick, mode, tools) {
    this.tick = tick;
    this.mode = mode;
    this.tools = tools;
    tick?.addEventListener("change", () => this.change(tick.checked));
    mode?.addEventListener("change", () => this.read());
  }

  get isOn() { return this.mode !== null && this.mode.value !== "off"; }

  /** @param {string} tool @returns {boolean} whether the switch shows it */
  hasRowFor(tool) { return this.isOn && MEMORY_TOOLS.includes(tool); }

  /** The switch shows what the field says. */
  read() {
    if (this.tick) this.tick.checked = this.isOn;
    this.tools.draw();
  }

  /** @param {boolean} isOn */
  async change(isOn) {
    // What it remembers waits for the person's approval, unless somebody chooses otherwise.
    this.mode.value = isOn ? "suggest" : "off";
    this.mode.dispatchEvent(new Event("change", { bubbles: true }));
    if (!isOn) {
      this.tools.take(MEMORY_TOOLS);
      return;
    }
    try {
      await this.tools.give(MEMORY_TOOLS);
    } catch (error) {
      tell(/** @type {Error} */ (error).message);
    }
  }
}
