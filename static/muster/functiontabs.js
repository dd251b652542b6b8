// The tabs of a function beside its source: use, versions, tests, executions, replay. Each loads when it is shown.
import { modeChoices, makeGrant } from "./agent/tools.js";
import { showChanges } from "./comparison.js";
import { fixed } from "./numbers.js";
import { api, localise, make, tell } from "./page.js";
import { Row } from "./row.js";
import { sitePath } from "./site.js";
import { gettext, word } from "./texts.js";

/** @typedef {string | Node | null} Cell */
/** @typedef {{pathOf: (rest?: string) => string, isEditable: boolean, labelOf: (name: string) => string, readArguments: () => any, name: string}} Bench */

/** @param {number} ms */
export function formatDuration(ms) {
  if (ms < 1000) return `${fixed(ms, ms < 10 ? 1 : 0)} ms`;
  return `${fixed(ms / 1000, 2)} s`;
}

/** @param {string[]} heads @param {Cell[][]} rows @param {string} emptyWords */
function makeTable(heads, rows, emptyWords) {
  if (!rows.length) return make("p", { className: "card soft", textContent: emptyWords });
  const head = make("tr", {}, ...heads.map((words) => make("th", { scope: "col", textContent: words })));
  const lines = rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell))));
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines));
  const region = make("div", { className: "scroll", tabIndex: 0 }, table);
  localise(region);
  return region;
}

/** @param {string} words @param {() => unknown} onclick @param {string} [className] */
const makeButton = (words, onclick, className = "quiet") => make("button", { type: "button", textContent: words, onclick, className });

/** A JSON value in a cell, cut by the cell and not at a number of letters. @param {any} value */
function makeCode(value) {
  const text = JSON.stringify(value);
  return make("code", { className: "brief", textContent: text, title: text });
}

/** @param {Error} error */
const tellError = (error) => tell(error.message);

export class FunctionTabs {
  /** @param {Bench} bench */
  constructor(bench) {
    this.bench = bench;
  }

  start() {
    document.addEventListener("shown", (event) => this.load(/** @type {Element} */ (event.target).id));
    if (location.hash) this.load(location.hash.slice(1));
  }

  /** @param {string} tab */
  load(tab) {
    const loaders = /** @type {Record<string, (panel: HTMLElement) => Promise<void>>} */ ({
      use: (panel) => this.showUse(panel),
      versions: (panel) => this.showVersions(panel),
      tests: (panel) => this.showTests(panel),
      executions: (panel) => this.showExecutions(panel),
      replay: (panel) => this.showReplay(panel),
    });
    const panel = document.getElementById(`panel-${tab}`);
    if (panel) loaders[tab]?.(panel).catch(tellError);
  }

  // -- use --------------------------------------------------------------------------------------------------------------

  /** @param {HTMLElement} panel */
  async showUse(panel) {
    const users = /** @type {HTMLElement} */ (panel.querySelector("[data-place=users]"));
    const give = /** @type {HTMLElement | null} */ (panel.querySelector("[data-place=give]"));
    await Promise.all([this.bench.isEditable ? this.showUsers(users) : null, give ? this.showGive(give) : null]);
  }

  /** @param {HTMLElement} place */
  async showUsers(place) {
    const { results } = await api(this.bench.pathOf("/used-by"));
    if (!results.length) {
      place.replaceChildren(make("p", { className: "soft", textContent: gettext("No agent or chain uses it yet.") }));
      return;
    }
    const pages = /** @type {Record<string, string>} */ ({ agent: "agents", chain: "chains", step: "chains" });
    const modes = Object.fromEntries(modeChoices());
    const lines = results.map((/** @type {{kind: string, name: string, mode: string}} */ { kind, name, mode }) => {
      const words = [kind === "step" ? gettext("step of a chain") : word(kind), modes[mode] ?? ""].filter(Boolean).join(" · ");
      const [row] = name.split("/");
      const isOpen = pages[kind] && row;
      const title = isOpen ? make("a", { href: sitePath(`/${pages[kind]}/${encodeURIComponent(row)}/`), textContent: name }) : make("span", { textContent: name || gettext("one that you cannot see") });
      return make("li", {}, title, make("span", { className: "small soft", textContent: ` ${words}` }));
    });
    place.replaceChildren(make("ul", { className: "users" }, ...lines));
  }

  /** A form that grants the function to an agent of this person. @param {HTMLElement} place */
  async showGive(place) {
    const { results } = await api("agents/?limit=200&enabled=true");
    const agent = make("select", { id: "give-agent" }, make("option", { value: "", textContent: gettext("a new agent") }));
    for (const row of results) agent.append(make("option", { value: row.name, textContent: row.name }));
    const mode = make("select", { id: "give-mode" });
    for (const [value, words] of modeChoices()) mode.append(make("option", { value, textContent: words, selected: value === "ask" }));
    const form = make("form", { className: "form" }, make("label", { htmlFor: "give-agent", textContent: gettext("Agent") }), agent, make("label", { htmlFor: "give-mode", textContent: gettext("Calls") }), mode, make("div", { className: "actions" }, make("button", { className: "primary", textContent: gettext("Give it") })));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.give(agent.value, mode.value).catch(tellError);
    });
    place.replaceChildren(form);
  }

  /** @param {string} agent "" for a new one @param {string} mode */
  async give(agent, mode) {
    const { name } = this.bench;
    if (!agent) {
      location.assign(sitePath(`/agents/new/?tool=${encodeURIComponent(name)}&mode=${mode}`));
      return;
    }
    const row = new Row(`agents/${encodeURIComponent(agent)}`);
    await row.load();
    const tool = await api(`tools/${encodeURIComponent(name)}`);
    const others = row.base.grants.filter((/** @type {any} */ grant) => grant.tool !== name);
    await row.save({ grants: [...others, { ...makeGrant(tool), mode }] });
    location.assign(sitePath(`/agents/${encodeURIComponent(agent)}/#tools`));
  }

  // -- versions ---------------------------------------------------------------------------------------------------------

  /** @param {HTMLElement} panel */
  async showVersions(panel) {
    const { pathOf, isEditable } = this.bench;
    const row = new Row(pathOf());
    // First, so that a change made since the list was read refuses the roll back.
    await row.load();
    const { results } = await api(pathOf("/versions/"));
    const place = make("div", { className: "stack" });
    const rows = results.map((/** @type {any} */ version, /** @type {number} */ index) => {
      const before = results[index + 1];
      const name = make("span", {}, make("strong", { textContent: `v${version.version} ` }));
      if (version.is_live) name.append(make("span", { className: "pill live", textContent: gettext("live") }));
      const verbs = make("span", { className: "row" });
      if (before) verbs.append(makeButton(gettext("Compare with v%(version)s", { version: before.version }), () => this.compare(place, before.version, version.version).catch(tellError)));
      if (isEditable && !version.is_live) verbs.append(makeButton(gettext("Roll back to it"), () => this.rollBack(row, version.version)));
      return [name, make("time", { dateTime: version.created_at }), version.author ?? "–", version.note || "–", verbs];
    });
    const heads = [gettext("Version"), gettext("When"), gettext("Who"), gettext("What changed"), ""];
    panel.replaceChildren(make("div", { className: "stack" }, makeTable(heads, rows, gettext("Nothing is published yet.")), place));
  }

  /** @param {HTMLElement} place @param {number} from @param {number} to */
  async compare(place, from, to) {
    const { changes } = await api(this.bench.pathOf(`/diff?from=${from}&to=${to}`));
    place.replaceChildren(make("h2", { textContent: `v${from} → v${to}` }), showChanges(changes, this.bench.labelOf));
  }

  /** @param {Row} row as it was when the versions were listed @param {number} version */
  async rollBack(row, version) {
    if (!confirm(gettext("Make version %(version)s live again?", { version }))) return;
    try {
      await api(this.bench.pathOf("/rollback"), { method: "POST", body: { version }, headers: { "If-Match": row.etag } });
      location.reload();
    } catch (error) {
      tellError(error);
    }
  }

  // -- tests ------------------------------------------------------------------------------------------------------------

  /** @param {HTMLElement} panel */
  async showTests(panel) {
    const { pathOf } = this.bench;
    const { results } = await api(pathOf("/tests/"));
    const verdicts = make("div", { role: "status" });
    const rows = results.map((/** @type {any} */ test) => {
      const remove = makeButton(gettext("Remove"), async () => {
        await api(pathOf(`/tests/${test.id}`), { method: "DELETE" }).catch(tellError);
        this.showTests(panel);
      });
      return [test.name, makeCode(test.arguments), test.expects, makeCode(test.expected), remove];
    });
    const heads = [gettext("Name"), gettext("Arguments"), gettext("Expects"), gettext("Expected"), ""];
    const table = makeTable(heads, rows, gettext("No test yet. Publishing runs them all and stops when one fails."));
    const all = makeButton(gettext("Run all against the draft"), () => this.runTests(verdicts), "primary");
    panel.replaceChildren(make("div", { className: "stack" }, make("p", {}, all), verdicts, table, this.makeTestForm(panel)));
  }

  /** @param {HTMLElement} panel */
  makeTestForm(panel) {
    const name = make("input", { id: "new-name", required: true });
    const input = make("textarea", { id: "new-arguments-as-json", className: "code", rows: 2, value: JSON.stringify(this.readArgumentsSafely()) });
    const expected = make("textarea", { id: "new-expected-result-as-json", className: "code", rows: 2 });
    const form = make("form", { className: "card form" },
      make("h2", { textContent: gettext("Add a test") }),
      make("label", { htmlFor: name.id, textContent: gettext("Name") }), name,
      make("label", { htmlFor: input.id, textContent: gettext("Arguments as JSON") }), input,
      make("label", { htmlFor: expected.id, textContent: gettext("Expected result as JSON") }), expected,
      make("div", { className: "actions" }, make("button", { className: "primary", textContent: gettext("Add") })));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const body = { name: name.value, arguments: JSON.parse(input.value || "{}"), expected: JSON.parse(expected.value || "null") };
        await api(this.bench.pathOf("/tests/"), { method: "POST", body });
        this.showTests(panel);
      } catch (error) {
        tellError(error);
      }
    });
    return form;
  }

  readArgumentsSafely() {
    try {
      return this.bench.readArguments();
    } catch {
      return {};
    }
  }

  /** @param {HTMLElement} verdicts */
  async runTests(verdicts) {
    verdicts.replaceChildren(make("p", { className: "soft", textContent: gettext("Running…") }));
    try {
      const answer = await api(this.bench.pathOf("/tests/run"), { method: "POST", body: {} });
      const words = gettext("%(passed)s passed, %(failed)s failed.", { passed: answer.passed, failed: answer.failed });
      const failures = answer.results.filter((/** @type {any} */ test) => !test.ok);
      const lines = failures.map((/** @type {any} */ test) => make("p", { className: "small", textContent: `${test.test}: ${test.reason}` }));
      verdicts.replaceChildren(make("p", { className: `note ${answer.failed ? "error" : "success"}`, textContent: words }), ...lines);
    } catch (error) {
      verdicts.replaceChildren();
      tellError(error);
    }
  }

  // -- executions and replay ----------------------------------------------------------------------------------------------

  /** @param {HTMLElement} panel */
  async showExecutions(panel) {
    const { results } = await api(this.bench.pathOf("/executions/?limit=50"));
    const rows = results.map((/** @type {any} */ execution) => {
      const pill = make("span", { className: `pill ${execution.status === "ok" ? "ok" : "failed"}`, textContent: word(execution.status) });
      const verbs = make("span", { className: "row" });
      if (execution.run) verbs.append(make("a", { href: sitePath(`/runs/${execution.run}/`), textContent: gettext("run") }));
      if (this.bench.isEditable) verbs.append(makeButton(gettext("Create a test"), () => this.createTest(execution.execution)));
      const version = execution.version ? `v${execution.version}` : "–";
      const result = makeCode(execution.error ?? execution.result);
      return [pill, make("time", { dateTime: execution.started_at }), version, makeCode(execution.arguments), result, formatDuration(execution.wall_ms), verbs];
    });
    const heads = [gettext("Outcome"), gettext("When"), gettext("Version"), gettext("Arguments"), gettext("Result"), gettext("Took"), ""];
    panel.replaceChildren(makeTable(heads, rows, gettext("No executions yet.")));
  }

  /** @param {string} execution */
  async createTest(execution) {
    try {
      await api(this.bench.pathOf("/tests/"), { method: "POST", body: { execution } });
      tell(gettext("A test was created from this execution."), "success");
    } catch (error) {
      tellError(error);
    }
  }

  /** @param {HTMLElement} panel */
  async showReplay(panel) {
    const place = make("div", { role: "status" });
    const start = makeButton(gettext("Replay my last 20 inputs against the draft"), () => this.replay(place), "primary");
    const words = make("p", { className: "soft", textContent: gettext("Runs recent inputs against the current draft, and lists what would have been different.") });
    panel.replaceChildren(make("div", { className: "stack" }, words, make("p", {}, start), place));
  }

  /** @param {HTMLElement} place */
  async replay(place) {
    place.replaceChildren(make("p", { className: "soft", textContent: gettext("Running…") }));
    try {
      const answer = await api(this.bench.pathOf("/replay"), { method: "POST", body: { limit: 20 } });
      const rows = answer.differing.map((/** @type {any} */ one) => [makeCode(one.arguments), makeCode(one.before.error ?? one.before.result), makeCode(one.after.error ?? one.after.result), one.reason]);
      const words = gettext("%(same)s of %(replayed)s give the same.", { same: answer.same, replayed: answer.replayed });
      const note = make("p", { className: `note ${rows.length ? "warning" : "success"}`, textContent: words });
      const heads = [gettext("Arguments"), gettext("Before"), gettext("Now"), gettext("Why")];
      place.replaceChildren(note, ...(rows.length ? [makeTable(heads, rows, "")] : []));
    } catch (error) {
      place.replaceChildren(make("p", { className: "note error", textContent: error.message }));
    }
  }
}
