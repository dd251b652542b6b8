// The budgets of an agent, below its limits.
import { money, number } from "../numbers.js";
import { api, make, tell } from "../page.js";
import { gettext } from "../texts.js";

const PERIODS = /** @type {Record<string, string>} */ ({ day: gettext("a day"), month: gettext("a month"), run: gettext("a run") });

/** @param {any} budget */
function inWords(budget) {
  const parts = [budget.max_cost === null ? "" : money(budget.max_cost), budget.max_tokens === null ? "" : gettext("%(number)s tokens", { number: number(budget.max_tokens) }), budget.max_runs === null ? "" : gettext("%(number)s runs", { number: number(budget.max_runs) })];
  return `${parts.filter(Boolean).join(", ")} ${PERIODS[budget.period] ?? gettext("each %(period)s", { period: budget.period })}${budget.user ? `, ${gettext("for %(user)s", { user: budget.user })}` : gettext(", for everyone")}${budget.enabled ? "" : ` (${gettext("off")})`}`;
}

export class Budgets {
  /** @param {HTMLElement} place @param {string} agent its name @param {boolean} isEditable */
  constructor(place, agent, isEditable) {
    this.place = place;
    this.agent = agent;
    this.isEditable = isEditable;
  }

  async show() {
    const { results } = await api("budgets/?limit=500");
    const own = results.filter((/** @type {any} */ one) => one.agent === this.agent);
    const list = make("ul", { className: "users" }, ...own.map((/** @type {any} */ one) => this.line(one)));
    this.place.replaceChildren(make("h2", { textContent: gettext("Budgets") }), own.length ? list : make("p", { className: "small soft", textContent: gettext("No budget limits this agent.") }), ...(this.isEditable ? [this.form()] : []));
  }

  /** @param {any} budget */
  line(budget) {
    const words = inWords(budget);
    const remove = make("button", { type: "button", className: "quiet small", textContent: gettext("Remove"), ariaLabel: gettext("Remove %(words)s", { words }), onclick: () => this.change(() => api(`budgets/${budget.id}`, { method: "DELETE" })) });
    return make("li", {}, words, " ", ...(this.isEditable ? [remove] : []));
  }

  form() {
    const most = make("input", { id: "budget-cost", inputMode: "decimal", required: true, placeholder: "5.00", ariaLabel: gettext("Most US dollars") });
    const period = make("select", { id: "budget-period", ariaLabel: gettext("Period") }, ...Object.entries(PERIODS).map(([value, textContent]) => make("option", { value, textContent })));
    const form = make("form", { className: "filters" }, make("span", { textContent: gettext("At most $") }), most, period, make("button", { textContent: gettext("Add a budget") }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.change(() => api("budgets/", { method: "POST", body: { agent: this.agent, period: period.value, max_cost: most.value.trim() } }));
    });
    return form;
  }

  /** @param {() => Promise<any>} work */
  async change(work) {
    try {
      await work();
      await this.show();
    } catch (error) { tell(/** @type {Error} */ (error).message); }
  }
}
