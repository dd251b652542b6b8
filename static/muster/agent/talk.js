// The conversation beside an agent's form: with the draft, with what is live, or with both at once.
import { converse, watch } from "../sse.js";
import { api, make, tell } from "../page.js";
import { RunView } from "../runview.js";
import { gettext } from "../texts.js";

/** One conversation; it starts anew when the other side is chosen. */
class Side {
  /** @param {HTMLElement} stream @param {string} path @param {"draft" | "live"} which */
  constructor(stream, path, which) {
    this.stream = stream;
    this.path = path;
    this.which = which;
    this.key = `talk:${document.body.dataset.person}:${path}:${which}`; // another person may sign in with this browser
    this.session = localStorage.getItem(this.key) ?? "";
    this.run = "";
  }

  /** The next message starts another conversation. */
  forget() {
    localStorage.removeItem(this.key);
    this.session = "";
  }

  /** @param {string} message */
  turn(message) {
    const label = make("p", { className: "small soft", textContent: this.which === "draft" ? gettext("Draft") : gettext("Live version") });
    const answers = make("div", { className: "answers" });
    this.stream.append(make("article", { className: "turn" }, make("div", { className: "say user", dir: "auto", textContent: message }), label, answers));
    return answers;
  }

  /** Draw the messages from before this page was loaded, from the events of its runs. @param {() => void} moved */
  async restore(moved) {
    if (!this.session) return;
    const asked = this.session;
    const said = await api(`sessions/${asked}/messages/?limit=200`).catch(() => null);
    if (this.session !== asked) return; // started anew in the meantime
    if (!said) { this.forget(); return; } // deleted, or another person's
    for (const { text, run } of said.results.filter((/** @type {any} */ one) => one.role === "user" && one.run)) {
      const view = new RunView(this.turn(text), { run });
      this.run = run;
      await watch(run, { on: (/** @type {any} */ event) => { view.show(event); moved(); } }).catch(() => {});
      this.run = "";
    }
  }

  /** @param {string} message @param {() => void} moved */
  async send(message, moved) {
    const answers = this.turn(message);
    const view = new RunView(answers);
    const body = { message, ...(this.session ? { session: this.session } : {}), ...(this.which === "draft" ? { draft: true } : {}) };
    moved();
    try {
      await converse(`${this.path}/messages`, body, {
        opened: (/** @type {{run: string, session: string}} */ { run, session }) => {
          view.run = this.run = run;
          this.session = session;
          localStorage.setItem(this.key, session);
        },
        on: (/** @type {any} */ event) => { view.show(event); moved(); },
      });
    } catch (error) {
      answers.replaceChildren(make("p", { className: "note error", textContent: /** @type {Error} */ (error).message }));
    }
    this.run = "";
    moved();
  }
}

export class Talk {
  /** @param {HTMLElement} root @param {string} path of the agent, below /api/v1/ @param {() => Promise<boolean>} ready saves the draft; false: not saved */
  constructor(root, path, ready) {
    this.form = /** @type {HTMLFormElement} */ (root.querySelector("form"));
    this.text = /** @type {HTMLTextAreaElement} */ (root.querySelector("textarea"));
    this.stop = /** @type {HTMLButtonElement} */ (root.querySelector("[data-stop]"));
    this.sendButton = /** @type {HTMLButtonElement} */ (root.querySelector("[data-send]"));
    this.with = /** @type {HTMLSelectElement} */ (root.querySelector("[data-with]"));
    this.stream = /** @type {HTMLElement} */ (root.querySelector(".stream"));
    this.path = path;
    this.ready = ready;
    /** @type {Side[]} */
    this.sides = [];
    this.start();
    this.with.addEventListener("change", () => this.start());
    root.querySelector("[data-anew]")?.addEventListener("click", () => { for (const side of this.sides) side.forget(); this.start(); });
    this.stop.addEventListener("click", () => this.cancel());
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.send(this.text.value.trim()); });
    this.text.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.form.requestSubmit(); } });
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-say]"))) button.addEventListener("click", () => this.send(button.dataset.say ?? ""));
  }

  async start() {
    const which = this.with.value === "both" ? ["draft", "live"] : [this.with.value];
    this.stream.replaceChildren();
    this.sides = which.map((one) => new Side(this.stream, this.path, /** @type {"draft" | "live"} */ (one)));
    const moved = () => { this.stream.scrollTop = this.stream.scrollHeight; };
    this.busy(true);
    for (const side of this.sides) await side.restore(moved);
    this.busy(false);
  }

  /** @param {string} message */
  async send(message) {
    if (!message || this.sendButton.disabled) return;
    if (this.with.value !== "live" && !(await this.ready())) return;
    this.text.value = "";
    this.busy(true);
    const moved = () => { this.stream.scrollTop = this.stream.scrollHeight; };
    await Promise.all(this.sides.map((side) => side.send(message, moved)));
    this.busy(false);
    this.text.focus({ preventScroll: true });
  }

  /** @param {boolean} isBusy */
  busy(isBusy) {
    this.sendButton.disabled = this.with.disabled = isBusy;
    this.stop.hidden = !isBusy;
  }

  async cancel() {
    const runs = this.sides.map((side) => side.run).filter(Boolean);
    await Promise.all(runs.map((run) => api(`runs/${run}/cancel`, { method: "POST", body: {} }).catch((/** @type {Error} */ error) => tell(error.message))));
  }
}
