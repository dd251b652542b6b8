// What the steps of a chain can run, and what each of it takes and gives.
import { api } from "../page.js";
import { gettext } from "../texts.js";

/** @typedef {import("./picker.js").Option} Option */
/** @typedef {{input: any, output: any, description: string, effect: string, kind: string, missing: boolean}} About schemas of a target */

// As tools of the catalogue these are offered as what they are.
const OFFERED_AS_THEMSELVES = new Set(["agent", "chain"]);

/** @param {string} ownName the chain that is edited @param {string} text @returns {Promise<Option[]>} */
export async function findTargets(ownName, text) {
  const query = new URLSearchParams({ limit: "30" });
  if (text) query.set("search", text);
  const kinds = ["agents", "tools", "chains"];
  const [agents, tools, chains] = await Promise.all(kinds.map((kind) => api(`${kind}/?${query}`).then((answer) => answer.results)));
  const isEnabled = (/** @type {any} */ row) => row.enabled !== false;
  const isOtherTool = (/** @type {any} */ row) => !OFFERED_AS_THEMSELVES.has(row.kind);
  const isOtherChain = (/** @type {any} */ row) => row.name !== ownName;
  const router = {
    label: gettext("An agent chosen by the router"),
    detail: gettext("by the words of the message"),
    group: gettext("Agents"),
    value: { kind: "router", name: "" },
  };
  const isRouterAsked = router.label.toLowerCase().includes(text.toLowerCase());
  return [
    ...agents.filter(isEnabled).map((/** @type {any} */ row) => offer("agent", gettext("Agents"), row)),
    ...(isRouterAsked ? [router] : []),
    ...tools.filter(isEnabled).filter(isOtherTool).map((/** @type {any} */ row) => offer("tool", gettext("Tools"), row)),
    ...chains.filter(isEnabled).filter(isOtherChain).map((/** @type {any} */ row) => offer("chain", gettext("Chains"), row)),
  ];
}

/** @param {string} kind @param {string} group @param {any} row @returns {Option} */
function offer(kind, group, row) {
  const value = { kind, name: row.name, effect: row.effect, toolKind: row.kind };
  return { label: row.name, detail: row.description ?? "", group, value };
}

/** @returns {About} */
const unknownTarget = () => ({ input: null, output: null, description: "", effect: "", kind: "", missing: true });

export class Catalog {
  constructor() {
    /** @type {Map<string, Promise<About>>} */
    this.targets = new Map();
  }

  /** @param {string} kind @param {string} name @returns {Promise<About>} */
  describe(kind, name) {
    const id = `${kind}/${name}`;
    let answer = this.targets.get(id);
    if (!answer) {
      answer = this.load(kind, name).catch(unknownTarget);
      this.targets.set(id, answer);
    }
    return answer;
  }

  /** @param {string} kind @param {string} name @returns {Promise<About>} */
  async load(kind, name) {
    const message = { type: "string", description: gettext("What the agent is asked.") };
    if (kind === "router") {
      const description = gettext("The router chooses the agent that fits the message best.");
      const input = { properties: { message }, required: ["message"] };
      return { ...unknownTarget(), input, description, missing: false };
    }
    if (!name) return unknownTarget();
    const row = await api(`${kind}s/${encodeURIComponent(name)}`);
    const own = row.input_schema;
    const about = { ...unknownTarget(), description: row.description ?? "", effect: row.effect ?? "", kind: row.kind ?? "", missing: false };
    if (kind !== "agent") return { ...about, input: own, output: row.output_schema ?? null };
    const properties = { message, ...(own?.properties ?? {}) };
    const required = ["message", ...(own?.required ?? [])];
    // An agent answers with a text, unless it has a form for its answers.
    return { ...about, input: { properties, required }, output: row.output_schema ?? { type: "string" } };
  }
}
