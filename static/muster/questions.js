// A question that a run asks its person: a card with a form from the JSON Schema of the answer.
import { api, localise, make } from "./page.js";
import { SchemaForm } from "./schemaform.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

export class QuestionCard {
  /** @param {{id: string, name: string, prompt: string, schema: any, expires_at?: string}} asked data of input.requested */
  constructor({ id, name, prompt, schema, expires_at: until }) {
    this.id = id;
    this.isObject = schema?.type === "object" && Object.keys(schema.properties ?? {}).length > 0;
    const fields = make("div", { className: "form" });
    this.form = new SchemaForm(fields, { prefix: `answer-${id}` });
    this.form.show(this.isObject ? schema : { properties: { answer: schema ?? { type: "string" } }, required: ["answer"] });
    this.wrong = make("p", { className: "wrong small", role: "alert" });
    const time = make("time", { dateTime: until ?? "" });
    time.dataset.ago = "";
    const decline = make("button", { type: "button", textContent: gettext("Do not answer"), onclick: () => this.send({ decline: true }) });
    const form = make("form", { className: "form" }, fields, this.wrong, make("div", { className: "row" }, make("button", { className: "primary", textContent: gettext("Answer") }), decline));
    form.addEventListener("submit", (event) => { event.preventDefault(); this.answer(); });
    this.element = make("div", { className: "ask", role: "group", ariaLabel: gettext("Question of %(name)s", { name }), id: `question-${id}` },
      make("p", { className: "prompt", textContent: prompt || gettext("%(name)s needs an answer.", { name }) }),
      make("p", { className: "small soft" }, gettext("Expires"), " ", time), form);
    localise(this.element);
  }

  focus() { /** @type {HTMLElement | null} */ (this.element.querySelector("input, textarea, select"))?.focus({ preventScroll: true }); }

  async answer() {
    try {
      const values = this.form.read();
      await this.send({ value: this.isObject ? values : values.answer });
    } catch (error) { this.wrong.textContent = /** @type {Error} */ (error).message; }
  }

  /** @param {Record<string, any>} body */
  async send(body) {
    this.wrong.textContent = "";
    try {
      const { status } = await api(`inputs/${this.id}`, { method: "POST", body });
      this.close({ status });
    } catch (error) { this.wrong.textContent = /** @type {Error} */ (error).message; }
  }

  /** @param {{status: string, by?: string}} answered */
  close({ status, by }) {
    const words = { answered: gettext("Answered."), declined: gettext("Not answered."), expired: gettext("Nobody answered in time.") };
    this.element.classList.add("decided");
    this.element.replaceChildren(make("p", { className: "small", textContent: [words[/** @type {"answered"} */ (status)] ?? gettext("Closed."), by ?? ""].filter(Boolean).join(" ") }));
  }
}

// The inbox: the open questions of this person.
const place = document.getElementById("questions");
if (place) {
  for (const asked of JSON.parse(document.getElementById("open-questions")?.textContent ?? "[]")) {
    const card = new QuestionCard(asked);
    const about = make("p", { className: "small soft" }, make("a", { href: sitePath(`/runs/${asked.run}/`), textContent: asked.agent }));
    place.append(make("div", { className: "card" }, about, card.element));
  }
  if (location.hash.startsWith("#question-")) document.getElementById(location.hash.slice(1))?.scrollIntoView({ block: "center" });
}
