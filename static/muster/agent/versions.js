// The versions of an agent: what changed and who changed it, a comparison of two, and the way back to an earlier one.
import { api, localise, make, tell } from "../page.js";
import { gettext } from "../texts.js";

/** @typedef {import("../row.js").Row} Row */
/** @typedef {{version: number, is_live: boolean, author: string | null, note: string, created_at: string}} Version */

/** @param {string} words @param {() => void} onclick */
const button = (words, onclick) => make("button", { type: "button", className: "quiet small", textContent: words, onclick });

export class Versions {
  /** @param {HTMLElement} panel @param {Row} row of the page: a roll back is for the draft that the person has read @param {boolean} isEditable @param {() => Promise<void>} changed called after a roll back */
  constructor(panel, row, isEditable, changed) {
    this.panel = panel;
    this.seen = row;
    this.path = row.path;
    this.isEditable = isEditable;
    this.changed = changed;
    this.place = make("div", { className: "stack", role: "status" });
  }

  async show() {
    const { results } = await api(`${this.path}/versions/?limit=100`);
    if (!results.length) {
      this.panel.replaceChildren(make("p", { className: "card soft", textContent: gettext("Nothing is published yet. Publishing stores the draft as version 1 and makes it live.") }));
      return;
    }
    const head = make("tr", {}, ...[gettext("Version"), gettext("When"), gettext("Who"), gettext("What changed")].map((one) => make("th", { scope: "col", textContent: one })), make("th", { scope: "col" }, make("span", { className: "sr", textContent: gettext("Actions") })));
    const rows = results.map((/** @type {Version} */ one, /** @type {number} */ index) => this.row(one, results[index + 1]));
    const table = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: gettext("Versions") }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
    localise(table);
    this.panel.replaceChildren(make("div", { className: "stack" }, table, this.place));
  }

  /** @param {Version} one @param {Version | undefined} before */
  row(one, before) {
    const verbs = [
      before ? button(gettext("Compare with v%(version)s", { version: before.version }), () => this.compare(before.version, one.version)) : null,
      button(gettext("Compare with the draft"), () => this.compare(one.version, "draft")),
      this.isEditable && !one.is_live ? button(gettext("Roll back to it"), () => this.rollBack(one.version)) : null,
    ];
    const cells = [
      make("span", {}, make("strong", { textContent: `v${one.version} ` }), one.is_live ? make("span", { className: "pill live", textContent: gettext("live") }) : null),
      make("time", { dateTime: one.created_at }), one.author ?? "–", one.note || "–", make("span", { className: "row" }, ...verbs),
    ];
    return make("tr", {}, ...cells.map((cell) => make("td", {}, cell)));
  }

  /** @param {number} from @param {number | "draft"} to */
  async compare(from, to) {
    try {
      const { text } = await api(`${this.path}/diff?from=${from}&to=${to}`);
      const name = to === "draft" ? gettext("the saved draft") : `v${to}`;
      this.place.replaceChildren(make("h2", { textContent: `v${from} → ${name}` }), difference(text));
      this.place.scrollIntoView({ block: "nearest" });
    } catch (error) { tell(/** @type {Error} */ (error).message); }
  }

  /** @param {number} version */
  async rollBack(version) {
    if (!confirm(gettext("Make version %(version)s live again? The draft stays as it is.", { version }))) return;
    try {
      await api(`${this.path}/rollback`, { method: "POST", body: { version }, headers: { "If-Match": this.seen.etag } });
      tell(gettext("Version %(version)s is live.", { version }), "success");
      await Promise.all([this.show(), this.changed()]);
    } catch (error) { tell(/** @type {Error} */ (error).message); }
  }
}

/** A unified diff with its lines marked. @param {string} text */
export function difference(text) {
  if (!text) return make("p", { className: "soft", textContent: gettext("Nothing differs.") });
  const lines = text.split("\n").filter((line) => !line.startsWith("---") && !line.startsWith("+++"));
  const words = /** @type {Record<string, "ins" | "del">} */ ({ "+": "ins", "-": "del" });
  const marked = lines.map((line) => make(words[line[0]] ?? "span", { className: line.startsWith("@@") ? "soft" : "", textContent: `${line}\n` }));
  return make("pre", { className: "json unified", tabIndex: 0, ariaLabel: gettext("Differences"), role: "region" }, ...marked);
}
