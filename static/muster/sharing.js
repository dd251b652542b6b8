// Sharing with a team: says what the team also needs to use the row, and shares that too.
// <select data-shares="agents/librarian"> is a field of a form; with data-applies it changes the row at once.
import { keptTo } from "./namesakes.js";
import { api, make, tell } from "./page.js";
import { gettext } from "./texts.js";

/** @typedef {{kind: string, name: string, owner: string | null, may_share: boolean, problem: string}} Need */

/** What the API calls them → what people do. @type {Record<string, string>} */
const KINDS = {
  agent: gettext("agent"), chain: gettext("chain"), tool: gettext("tool"), provider: gettext("model provider"),
  "stored function": gettext("function"), secret: gettext("secret"), connection: gettext("connection"),
  collection: gettext("collection"), skill: gettext("skill"),
};

/** @param {HTMLSelectElement} select */
const path = (select) => keptTo(select.dataset.query, `sharing/${select.dataset.shares}`);

/** @param {Need} need */
function describe(need) {
  const reason = need.may_share ? null : make("span", { className: "soft", textContent: ` – ${need.problem}` });
  return make("li", {}, make("strong", { textContent: need.name }), make("span", { className: "soft", textContent: ` ${KINDS[need.kind] ?? need.kind}` }), reason);
}

/** Asks what to do about what is needed; "share", "only" or "" for nothing. @param {string} team @param {Need[]} needs @returns {Promise<string>} */
function ask(team, needs) {
  const mine = needs.filter((need) => need.may_share);
  const title = make("h2", { id: "needs-title", textContent: gettext("%(team)s will also need", { team }) });
  const why = make("p", { textContent: gettext("Without these, members get an error or an answer made without them.") });
  const list = make("ul", { className: "plain needs" }, ...needs.map(describe));
  const share = make("button", { className: "primary", value: "share", textContent: mine.length === needs.length ? gettext("Share all") : gettext("Share what is yours") });
  const only = make("button", { value: "only", textContent: gettext("Share without them") });
  const no = make("button", { value: "", textContent: gettext("Cancel") });
  const form = make("form", { method: "dialog", className: "form" }, title, why, list, make("div", { className: "actions" }, ...(mine.length ? [share] : []), only, no));
  const dialog = make("dialog", {}, form);
  dialog.setAttribute("aria-labelledby", "needs-title");
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue); });
  });
}

/** Whether the chosen team stays chosen. @param {HTMLSelectElement} select @param {string} team */
async function shareNeeds(select, team) {
  const separator = path(select).includes("?") ? "&" : "?";
  const { needs } = await api(`${path(select)}${separator}team=${encodeURIComponent(team)}`);
  if (!needs.length) return true;
  const answer = await ask(team, needs);
  if (answer !== "share") return answer === "only";
  const { shared, needs: rest } = await api(path(select), { method: "POST", body: { team } });
  const names = shared.map((/** @type {Need} */ need) => need.name).join(", ");
  const left = rest.map((/** @type {Need} */ need) => `${need.name}: ${need.problem}`).join("; ");
  if (names) tell(gettext("Shared with %(team)s too: %(names)s.", { team, names }), left ? "warning" : "success");
  if (left) tell(gettext("Not shared: %(names)s", { names: left }), "warning");
  return true;
}

/** @param {HTMLSelectElement} select */
async function change(select) {
  const team = select.value;
  try {
    if (team && !(await shareNeeds(select, team))) return restore(select);
    if (select.dataset.applies !== undefined) {
      await api(keptTo(select.dataset.query, select.dataset.shares ?? ""), { method: "PATCH", body: { team: team || null } });
      tell(team ? gettext("Shared with %(team)s.", { team }) : gettext("Not shared any more."), "success");
    }
    select.dataset.before = team;
  } catch (error) {
    tell(/** @type {Error} */ (error).message);
    restore(select);
  }
}

/** @param {HTMLSelectElement} select */
function restore(select) {
  select.value = select.dataset.before ?? "";
  select.dispatchEvent(new Event("input", { bubbles: true }));
}

for (const select of /** @type {NodeListOf<HTMLSelectElement>} */ (document.querySelectorAll("select[data-shares]"))) {
  select.dataset.before = select.value;
  select.addEventListener("change", () => change(select));
}
