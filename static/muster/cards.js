// The cards of a conversation: a tool call that opens, a question for approval, a file.
import { fixed, parseExactly } from "./numbers.js";
import { api, localise, make } from "./page.js";
import { sitePath } from "./site.js";
import { gettext, word } from "./texts.js";

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const FILES = gettext("Files");
const MEGABYTE = 1024 ** 2; // xgettext takes 1 << 20 for the begin of XML
/** @param {number} bytes */
const sizeOf = (bytes) => (bytes < 1024 ? gettext("%(bytes)s bytes", { bytes }) : bytes < MEGABYTE ? `${fixed(bytes / 1024, 1)} KB` : `${fixed(bytes / MEGABYTE, 1)} MB`);
/** @param {string} words */
const label = (words) => make("p", { className: "small label", textContent: words });
/** @param {any} value */
const json = (value) => make("pre", { className: "json", textContent: typeof value === "string" ? value : JSON.stringify(value, null, 2), tabIndex: 0 });
/** @param {number} ms */
const duration = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${fixed(ms / 1000, 1)} s`);

/** @type {Record<string, string>} what people call tools, if the page says so */
const DISPLAY_NAMES = JSON.parse(document.getElementById("display-names")?.textContent ?? "{}");

/** The display name with the technical one beside it, since others may have a row of that name. @param {string} name */
function nameTool(name) {
  const label = DISPLAY_NAMES[name];
  return label ? [make("b", { textContent: label }), make("code", { className: "small soft", textContent: name })] : [make("b", { textContent: name })];
}

export class ToolCard {
  /** @param {{id: string, name: string, arguments: any, kind?: string}} called @param {string | null} run */
  constructor({ id, name, arguments: given, kind }, run) {
    this.id = id;
    this.name = name;
    this.kind = kind;
    this.state = "running";
    this.pill = make("span", { className: "pill running", textContent: gettext("running") });
    this.took = make("span", { className: "small soft" });
    this.inside = make("div", {}, label(gettext("Arguments")), json(given));
    const summary = make("summary", {}, ...nameTool(name), make("span", { className: "small soft", textContent: kind ? word(kind) : "" }), this.pill, this.took);
    this.element = make("details", { className: "call", id: `call-${id}` }, summary, this.inside);
    this.element.dataset.kind = kind ?? "";
    this.run = run;
  }

  /** @param {string} state */
  setState(state) {
    this.state = state;
    this.pill.className = `pill ${state}`;
    this.pill.textContent = word(state);
  }

  /** @param {{outcome: string, result?: any, error?: any, wall_ms?: number | null, printed?: string | null}} finished */
  finish({ outcome, result, error, wall_ms: ms, printed }) {
    this.setState(outcome);
    this.took.textContent = ms === null || ms === undefined ? "" : duration(ms);
    this.inside.append(label(error ? gettext("Error") : gettext("Result")), json(error ?? result ?? null));
    if (printed) this.inside.append(label(gettext("Printed")), json(printed));
  }

  /** @param {string} reason */
  deny(reason) {
    this.setState("denied");
    this.inside.append(label(gettext("Why")), json(reason));
  }
}

/** Arguments that come from strangers' text, or from nobody knows where. @param {any[]} findings */
function origins(findings) {
  const bad = findings.filter((one) => one.source === "stranger" || one.source === "unknown");
  return bad.map((one) => make("p", { className: "note warning small" }, make("code", { textContent: one.path }), " ", make("mark", { textContent: one.value }), " ", one.origin ? gettext("comes from %(origin)s", { origin: one.origin }) : gettext("comes from an unknown source")));
}

export class ApprovalCard {
  /** @param {any} asked data of approval.requested */
  constructor(asked) {
    this.asked = asked;
    const { id, tool, arguments: given, expires_at: until, effect, reason, findings = [] } = asked;
    this.field = make("textarea", { className: "code", rows: 4, value: JSON.stringify(given, null, 2), spellcheck: false, id: `ask-${id}` });
    this.note = make("input", { id: `ask-note-${id}`, maxLength: 500, placeholder: gettext("kept with the decision") });
    this.wrong = make("p", { className: "wrong small", role: "alert" });
    this.yes = make("button", { className: "primary", type: "button", textContent: gettext("Approve"), onclick: () => this.decide("approve") });
    const no = make("button", { className: "danger", type: "button", textContent: gettext("Deny"), onclick: () => this.decide("deny") });
    const time = make("time", { dateTime: until ?? "" });
    time.dataset.ago = "";
    this.needs = make("span", { textContent: gettext("needs your approval. Expires") });
    this.why = make("p", { className: "small", textContent: reason ? this.because(reason) : "" });
    this.forNote = [make("label", { htmlFor: `ask-note-${id}`, className: "small", textContent: gettext("Note") }), this.note];
    this.buttons = make("div", { className: "row" }, this.yes, no);
    this.element = make("div", { className: "ask", role: "group", ariaLabel: gettext("Approval of %(tool)s", { tool }) },
      make("p", {}, ...nameTool(tool), effect ? ` (${word(effect)})` : "", " ", this.needs, " ", time, "."),
      this.why, ...origins(findings),
      make("label", { htmlFor: `ask-${id}`, className: "small", textContent: gettext("Arguments") }), this.field,
      ...this.forNote, this.wrong, this.buttons);
    localise(this.element);
  }

  /** What an event does not say: the reason in the language of the page, and whether this person is among those who decide. */
  async check() {
    const known = await api(`approvals/${this.asked.id}`).catch(() => null);
    if (!known) return; // the server is away for a moment: what the event says stays
    const { may_decide: mayDecide, status, reason } = known;
    if (reason) this.why.textContent = this.because(reason);
    if (mayDecide || status !== "open") return;
    const place = make("a", { href: sitePath(`/approvals/#approval-${this.asked.id}`), textContent: gettext("See who") });
    const hadFocus = this.buttons.contains(document.activeElement);
    this.needs.textContent = gettext("needs an approval. Expires");
    this.field.readOnly = true;
    for (const one of this.forNote) one.remove();
    this.buttons.replaceChildren(make("span", {}, gettext("Somebody else decides this."), " ", place));
    if (hadFocus) place.focus({ preventScroll: true });
  }

  /** @param {string} reason */
  because(reason) { return gettext("Why you are asked: %(reason)s.", { reason }); }

  /** @param {"approve" | "deny"} decision */
  async decide(decision) {
    this.wrong.textContent = "";
    try {
      const edited = parseExactly(this.field.value);
      const body = /** @type {Record<string, any>} */ ({ decision });
      if (this.note.value.trim()) body.note = this.note.value.trim();
      if (decision === "approve" && JSON.stringify(edited) !== JSON.stringify(this.asked.arguments)) body.arguments = edited;
      await api(`approvals/${this.asked.id}`, { method: "POST", body });
      document.dispatchEvent(new CustomEvent("decided"));
    } catch (error) { this.wrong.textContent = /** @type {Error} */ (error).message; }
  }

  /** @param {{status: string, by?: string | null, note?: string}} decided */
  close({ status, by, note }) {
    const person = by ? gettext("by %(by)s", { by }) : "";
    const who = by === "deadline" ? `. ${gettext("Nobody answered in time.")}` : person && ` ${person}`;
    const words = `${this.asked.tool}: ${word(status)}${who}${note ? `. ${note}` : ""}`;
    this.element.classList.add("decided");
    this.element.replaceChildren(make("p", { className: "small", textContent: words }));
  }
}

/** @param {{file: string, name: string, media_type: string, size: number, untrusted?: boolean}} about */
export function fileCard({ file, name, media_type: type, size, untrusted }) {
  const facts = [type, sizeOf(size), untrusted ? gettext("may contain text written by strangers") : ""];
  const line = make("span", {}, make("a", { href: sitePath(`/api/v1/files/${file}/content`), download: name, textContent: name }), " ", make("small", { className: "soft", textContent: facts.filter(Boolean).join(", ") }));
  const picture = IMAGES.includes(type) ? [make("img", { src: sitePath(`/api/v1/files/${file}/preview`), alt: "", loading: "lazy" })] : [];
  return make("ul", { className: "files", ariaLabel: FILES }, make("li", {}, ...picture, line));
}
