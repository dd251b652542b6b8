// How an agent is used: code that calls it, its figures, and what calls or starts it.
import { money, number } from "../numbers.js";
import { api, make } from "../page.js";
import { SITE, sitePath } from "../site.js";
import { gettext, word } from "../texts.js";

/** @param {string} name */
function snippets(name) {
  const body = JSON.stringify({ message: "Hello" });
  return /** @type {Record<string, string>} */ ({
    curl: `curl ${SITE}/api/v1/agents/${name}/messages \\\n  -H "Authorization: Bearer $MUSTER_KEY" -H "Content-Type: application/json" \\\n  -d '${body}'`,
    "Python client": `from muster_client import Muster\n\nwith Muster("${SITE}", "mk_…") as muster:\n    print(muster.agent("${name}").message("Hello").send().text)`,
    "OpenAI SDK": `from openai import OpenAI\n\nclient = OpenAI(base_url="${SITE}/v1", api_key="mk_…")\nanswer = client.chat.completions.create(\n    model="${name}",\n    messages=[{"role": "user", "content": "Hello"}],\n)\nprint(answer.choices[0].message.content)`,
    MCP: JSON.stringify({ mcpServers: { muster: { url: `${SITE}/mcp`, headers: { Authorization: "Bearer mk_…" } } } }, null, 2),
  });
}

/** @param {HTMLElement} place @param {string} name */
export function showCode(place, name) {
  const parts = Object.entries(snippets(name)).map(([title, code], index) => {
    const pre = make("pre", { className: "json", id: `code-${index}`, textContent: code, tabIndex: 0, role: "region", ariaLabel: title });
    const copy = make("button", { type: "button", className: "quiet small", textContent: gettext("Copy"), ariaLabel: gettext("Copy %(title)s", { title }) });
    copy.dataset.copy = pre.id;
    return make("div", {}, make("div", { className: "row between" }, make("h3", { textContent: title }), copy), pre);
  });
  place.replaceChildren(...parts);
}

/** @param {HTMLElement} place @param {string} path of the agent, below /api/v1/ */
export async function showFigures(place, path) {
  const told = await api(`${path}/figures?window=month`);
  const failed = told.errors.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.count, 0);
  const rate = told.success_rate === null ? "–" : number(told.success_rate, { style: "percent" });
  const figures = [[gettext("Runs"), number(told.runs)], [gettext("Failed"), failed], [gettext("Succeeded"), rate], [gettext("Half took less than"), told.runs ? `${number(told.p50_s)} s` : "–"], [gettext("Tokens"), number(told.tokens)], [gettext("Cost"), money(told.cost)]];
  const shown = make("dl", { className: "figures" }, ...figures.map(([words, value]) => make("div", { className: "figure" }, make("dt", { textContent: words }), make("dd", { textContent: String(value) }))));
  const why = told.errors.map((/** @type {any} */ one) => `${one.code} (${one.count})`).join(", ");
  place.replaceChildren(shown, ...(why ? [make("p", { className: "small soft", textContent: gettext("Failed with: %(why)s", { why }) })] : []));
}

const PAGES = /** @type {Record<string, string>} */ ({ agent: "agents", chain: "chains", step: "chains", schedule: "schedules" });

/** @param {HTMLElement} place @param {string} path of the agent, below /api/v1/ */
export async function showUsers(place, path) {
  const { results } = await api(`${path}/used-by`);
  if (!results.length) { place.replaceChildren(make("p", { className: "soft", textContent: gettext("No other agent, chain, schedule or trigger that you can see uses it.") })); return; }
  const items = results.map((/** @type {{kind: string, name: string}} */ { kind, name }) => {
    const page = PAGES[kind];
    const shown = page ? make("a", { href: sitePath(`/${page}/${encodeURIComponent(name.split("/")[0])}/`), textContent: name }) : make("span", { textContent: name });
    return make("li", {}, shown, make("span", { className: "small soft", textContent: ` ${kind === "step" ? gettext("step of a chain") : word(kind)}` }));
  });
  place.replaceChildren(make("ul", { className: "users" }, ...items));
}
