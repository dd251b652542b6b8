// The versions of an agent or a chain: what changed and who changed it, a comparison of two, and the way back.
import { showChanges } from "../comparison.js";
import { api, localise, make, tell } from "../page.js";
import { gettext } from "../texts.js";

/** @typedef {import("../row.js").Row} Row */
/** @typedef {{version: number, is_live: boolean, author: string | null, note: string, created_at: string}} Version */

/** @param {string} words @param {() => void} onclick */
const makeButton = (words, onclick) => make("button", { type: "button", className: "quiet small", textContent: words, onclick });

export class Versions {
  /**
   * @param {HTMLElement} panel
   * @param {Row} row of the page: a roll back is for the draft that the person has read
   * @param {(name: string) => string} labelOf the form's label of a field
   * @param {boolean} isEditable
   * @param {() => Promise<void>} onRollBack
   */
  constructor(panel, row, labelOf, isEditable, onRollBack) {
    this.panel = panel;
    this.row = row;
    this.labelOf = labelOf;
    this.isEditable = isEditable;
    this.onRollBack = onRollBack;
    this.comparison = make("div", { className: "stack", role: "status" });
  }

  get path() { return this.row.path; }

  async show() {
    const { results } = await api(`${this.path}/versions/?limit=100`);
    if (!results.length) {
      const words = gettext("Nothing is published yet. Publishing stores the draft as version 1 and makes it live.");
      this.panel.replaceChildren(make("p", { className: "card soft", textContent: words }));
      return;
    }
    const head = make("tr");
    for (const title of [gettext("Version"), gettext("When"), gettext("Who"), gettext("What changed")]) {
      head.append(make("th", { scope: "col", textContent: title }));
    }
    head.append(make("th", { scope: "col" }, make("span", { className: "sr", textContent: gettext("Actions") })));
    const lines = results.map((/** @type {Version} */ version, /** @type {number} */ index) => this.makeLine(version, results[index + 1]));
    const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines));
    const region = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: gettext("Versions") }, table);
    localise(region);
    this.panel.replaceChildren(make("div", { className: "stack" }, region, this.comparison));
  }

  /** @param {Version} version @param {Version | undefined} before */
  makeLine(version, before) {
    const verbs = make("span", { className: "row" });
    if (before) verbs.append(makeButton(gettext("Compare with v%(version)s", { version: before.version }), () => this.compare(before.version, version.version)));
    verbs.append(makeButton(gettext("Compare with the draft"), () => this.compare(version.version, "draft")));
    if (this.isEditable && !version.is_live) verbs.append(makeButton(gettext("Roll back to it"), () => this.rollBack(version.version)));
    const name = make("span", {}, make("strong", { textContent: `v${version.version} ` }));
    if (version.is_live) name.append(make("span", { className: "pill live", textContent: gettext("live") }));
    const cells = [name, make("time", { dateTime: version.created_at }), version.author ?? "–", version.note || "–", verbs];
    return make("tr", {}, ...cells.map((cell) => make("td", {}, cell)));
  }

  /** @param {number} from @param {number | "draft"} to */
  async compare(from, to) {
    try {
      const { text, changes } = await api(`${this.path}/diff?from=${from}&to=${to}`);
      const name = to === "draft" ? gettext("the saved draft") : `v${to}`;
      const whole = make("details", { className: "fold small" }, make("summary", { textContent: gettext("As it is stored") }), showDifference(text));
      this.comparison.replaceChildren(make("h2", { textContent: `v${from} → ${name}` }), showChanges(changes, this.labelOf), whole);
      this.comparison.scrollIntoView({ block: "nearest" });
    } catch (error) {
      tell(/** @type {Error} */ (error).message);
    }
  }

  /** @param {number} version */
  async rollBack(version) {
    const question = gettext("Make version %(version)s live again? The draft stays as it is.", { version });
    if (!confirm(question)) return;
    try {
      await api(`${this.path}/rollback`, { method: "POST", body: { version }, headers: { "If-Match": this.row.etag } });
      tell(gettext("Version %(version)s is live.", { version }), "success");
      await Promise.all([this.show(), this.onRollBack()]);
    } catch (error) {
      tell(/** @type {Error} */ (error).message);
    }
  }
}

const TAGS = /** @type {Record<string, "ins" | "del">} */ ({ "+": "ins", "-": "del" });

/** A unified diff with its lines marked. @param {string} text */
function showDifference(text) {
  if (!text) return make("p", { className: "soft", textContent: gettext("Nothing differs.") });
  const lines = text.split("\n").filter((line) => !line.startsWith("---") && !line.startsWith("+++"));
  const pre = make("pre", { className: "json unified", tabIndex: 0, ariaLabel: gettext("Differences"), role: "region" });
  for (const line of lines) {
    const className = line.startsWith("@@") ? "soft" : "";
    pre.append(make(TAGS[line[0]] ?? "span", { className, textContent: `${line}\n` }));
  }
  return pre;
}
