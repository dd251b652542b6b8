// A question that a run asks its person: a card with a form from the JSON Schema of the answer.
import { api, localise, make } from "./page.js";
import { SchemaForm } from "./schemaform.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

/**
 * The data of input.requested.
 * @typedef {{id: string, name: string, prompt: string, schema: any, expires_at?: string}} Question
 */

export class QuestionCard {
  /** @param {Question} question */
  constructor(question) {
    this.id = question.id;
    this.wrong = make("p", { className: "wrong small", role: "alert" });
    const fields = make("div", { className: "form" });
    this.form = new SchemaForm(fields, { prefix: `answer-${this.id}` });
    const { schema } = question;
    this.isObject = schema?.type === "object" && Object.keys(schema.properties ?? {}).length > 0;
    this.form.show(this.isObject ? schema : wrapSchema(schema));
    this.element = this.buildCard(question, fields);
    localise(this.element);
  }

  /** @param {Question} question @param {HTMLElement} fields */
  buildCard({ id, name, prompt, expires_at: expiry }, fields) {
    const question = prompt || gettext("%(name)s needs an answer.", { name });
    const time = make("time", { dateTime: expiry ?? "" });
    time.dataset.ago = "";
    const properties = { className: "ask", role: "group", ariaLabel: gettext("Question of %(name)s", { name }) };
    return make(
      "div",
      { ...properties, id: `question-${id}` },
      make("p", { className: "prompt", textContent: question }),
      make("p", { className: "small soft" }, gettext("Expires"), " ", time),
      this.buildForm(fields),
    );
  }

  /** @param {HTMLElement} fields */
  buildForm(fields) {
    const answer = make("button", { className: "primary", textContent: gettext("Answer") });
    const decline = make("button", { type: "button", textContent: gettext("Do not answer") });
    decline.addEventListener("click", () => this.send({ decline: true }));
    const buttons = make("div", { className: "row" }, answer, decline);
    const form = make("form", { className: "form" }, fields, this.wrong, buttons);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.answer();
    });
    return form;
  }

  focus() {
    const first = /** @type {HTMLElement | null} */ (this.element.querySelector("input, textarea, select"));
    first?.focus({ preventScroll: true });
  }

  /** Sends what the fields hold. */
  async answer() {
    try {
      const values = this.form.read();
      await this.send({ value: this.isObject ? values : values.answer });
    } catch (error) {
      this.wrong.textContent = error.message;
    }
  }

  /** @param {Record<string, any>} body an answer, or that there is none */
  async send(body) {
    this.wrong.textContent = "";
    try {
      const { status } = await api(`inputs/${this.id}`, { method: "POST", body });
      this.close({ status });
    } catch (error) {
      this.wrong.textContent = error.message;
    }
  }

  /** Says how the question ended, instead of the form. @param {{status: string, by?: string}} end */
  close({ status, by }) {
    /** @type {Record<string, string>} */
    const sentences = {
      answered: gettext("Answered."),
      declined: gettext("Not answered."),
      expired: gettext("Nobody answered in time."),
    };
    const sentence = sentences[status] ?? gettext("Closed.");
    this.element.classList.add("decided");
    this.element.replaceChildren(make("p", { className: "small", textContent: by ? `${sentence} ${by}` : sentence }));
  }
}

/** A form has properties: an answer that is one value becomes the only one. @param {any} schema */
function wrapSchema(schema) {
  return { properties: { answer: schema ?? { type: "string" } }, required: ["answer"] };
}

// The inbox: the open questions of this person.
const place = document.getElementById("questions");
if (place) {
  const questions = JSON.parse(document.getElementById("open-questions")?.textContent ?? "[]");
  for (const question of questions) {
    const card = new QuestionCard(question);
    const link = make("a", { href: sitePath(`/runs/${question.run}/`), textContent: question.agent });
    place.append(make("div", { className: "card" }, make("p", { className: "small soft" }, link), card.element));
  }
  // A notice names a question, which was not there yet when the browser looked for it.
  const isNamed = location.hash.startsWith("#question-");
  if (isNamed) document.getElementById(location.hash.slice(1))?.scrollIntoView({ block: "center" });
}
