// The budgets of an agent, below its limits.
import { api, make, money, tell } from "./page.js";

const PERIODS = /** @type {Record<string, string>} */ ({ day: "a day", month: "a month", run: "a run" });

/** @param {any} budget */
function inWords(budget) {
  const parts = [budget.max_cost === null ? "" : money(budget.max_cost), budget.max_tokens === null ? "" : `${budget.max_tokens.toLocaleString("en-US")} tokens`, budget.max_runs === null ? "" : `${budget.max_runs} runs`];
  return `${parts.filter(Boolean).join(", ")} ${PERIODS[budget.period] ?? `each ${budget.period}`}${budget.user ? `, for ${budget.user}` : ", for everyone"}${budget.enabled ? "" : " (off)"}`;
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
    this.place.replaceChildren(make("h2", { textContent: "Budgets" }), own.length ? list : make("p", { className: "small soft", textContent: "No budget limits this agent." }), ...(this.isEditable ? [this.form()] : []));
  }

  /** @param {any} budget */
  line(budget) {
    const words = inWords(budget);
    const remove = make("button", { type: "button", className: "quiet small", textContent: "Remove", ariaLabel: `Remove ${words}`, onclick: () => this.change(() => api(`budgets/${budget.id}`, { method: "DELETE" })) });
    return make("li", {}, words, " ", ...(this.isEditable ? [remove] : []));
  }

  form() {
    const most = make("input", { id: "budget-cost", inputMode: "decimal", required: true, placeholder: "5.00", ariaLabel: "Most US dollars" });
    const period = make("select", { id: "budget-period", ariaLabel: "Period" }, ...Object.entries(PERIODS).map(([value, textContent]) => make("option", { value, textContent })));
    const form = make("form", { className: "filters" }, make("span", { textContent: "At most $" }), most, period, make("button", { textContent: "Add a budget" }));
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
