// The playground: one or two columns, each a conversation of its own.
import { api, csrf, localise, make, money, tell } from "./page.js";
import { converse } from "./sse.js";

const composer = document.getElementById("composer");
const text = document.getElementById("text");
const stop = document.querySelector("[data-stop]");

// Arguments that come from strangers' text, or from nobody knows where.
function origins(findings) {
  const bad = findings.filter((one) => one.source === "stranger" || one.source === "unknown");
  return bad.map((one) => make("p", { className: "note warning small" }, make("code", { textContent: one.path }), " ", make("mark", { textContent: one.value }), one.origin ? ` comes from ${one.origin}` : " comes from an unknown source"));
}

class Column {
  constructor(element) {
    this.element = element;
    this.stream = element.querySelector(".stream");
    this.agent = element.querySelector("[data-agent]");
    this.version = element.querySelector("[data-version]");
    this.session = element.dataset.session || null;
    this.run = null;
    for (const bubble of this.stream.querySelectorAll(".say.user")) this.addVerbs(bubble, bubble.textContent, bubble.dataset.run);
  }

  async send(message) {
    const bubble = make("div", { className: "say user", textContent: message });
    this.stream.append(bubble);
    this.turns = new Map();
    this.calls = new Map();
    this.files = new Set();
    this.hasChildren = false;
    const name = this.agent.value.trim();
    const body = { message };
    if (this.session) body.session = this.session;
    if (name && this.version.value.trim()) body.version = Number(this.version.value.trim());
    const path = name ? `agents/${encodeURIComponent(name)}/messages` : "messages";
    try {
      await converse(path, body, {
        opened: ({ run, session }) => { this.run = run; this.session = session; this.remember(); },
        on: (event) => this.show(event),
      });
    } catch (error) {
      this.stream.append(make("p", { className: "note error", textContent: error.message }));
    }
    this.addVerbs(bubble, message, this.run);
    this.run = null;
  }

  remember() {
    if (document.querySelectorAll(".column").length > 1) return;
    const url = new URL(location.href);
    url.searchParams.set("session", this.session);
    history.replaceState(null, "", url);
  }

  show({ type, data }) {
    const near = innerHeight + scrollY > document.body.scrollHeight - 160;
    this[type.replace(".", "_")]?.(data);
    if (near) scrollTo({ top: document.body.scrollHeight });
  }

  bubble(turn) {
    if (!this.turns.has(turn)) {
      const bubble = make("div", { className: "say assistant live" });
      this.stream.append(bubble);
      this.turns.set(turn, bubble);
    }
    return this.turns.get(turn);
  }

  message_delta({ turn, offset, text: piece }) {
    const bubble = this.bubble(turn);
    bubble.textContent = bubble.textContent.slice(0, offset) + piece;
  }

  model_finished({ turn, text: whole }) {
    if (whole) this.bubble(turn).textContent = whole;
    this.turns.get(turn)?.classList.remove("live");
  }

  run_routed({ agent, reason }) {
    this.stream.append(make("p", { className: "small soft", textContent: `Routed to ${agent}${reason ? `: ${reason}` : ""}.` }));
  }

  run_waiting({ waiting_for: what }) {
    if (what && what !== "approval") this.state(`Waiting for ${what === "child" ? "another agent" : `the ${what}`}.`);
  }

  state(words) {
    this.status?.remove();
    this.status = make("p", { className: "small soft", textContent: words });
    this.stream.append(this.status);
  }

  tool_called({ id, name, arguments: given, kind }) {
    const pill = make("span", { className: "pill running", textContent: "running" });
    const took = make("span", { className: "small soft" });
    const inside = make("div", {}, label("Arguments"), json(given));
    const call = make("details", { className: "call", id: `call-${id}` }, make("summary", {}, make("b", { textContent: name }), make("span", { className: "small soft", textContent: kind ?? "" }), pill, took), inside);
    this.calls.set(id, { name, call, pill, took, inside });
    this.stream.append(call);
  }

  tool_finished({ id, outcome, result, error, wall_ms: ms, printed }) {
    const shown = this.calls.get(id);
    if (!shown) return;
    this.setState(shown.pill, outcome);
    shown.took.textContent = ms === null || ms === undefined ? "" : duration(ms);
    shown.inside.append(label(error ? "Error" : "Result"), json(error ?? result));
    const said = printed ?? null;
    if (said) shown.inside.append(label("Printed"), json(said));
    else shown.call.addEventListener("toggle", () => this.addPrinted(id, shown), { once: true });
  }

  async addPrinted(id, shown) {
    const run = shown.call.dataset.run ?? this.lastRun;
    if (!run) return;
    const calls = await api(`runs/${run}/tool-calls/?limit=500`).catch(() => null);
    const call = calls?.results.find((one) => one.id === id);
    if (call?.printed) shown.inside.append(label("Printed"), json(call.printed));
  }

  tool_denied({ id, name, reason }) {
    const shown = this.calls.get(id);
    if (shown) { this.setState(shown.pill, "denied"); shown.inside.append(label("Why"), json(reason)); }
    else this.stream.append(make("p", { className: "note warning", textContent: `${name} was refused: ${reason}` }));
  }

  artifact_created({ file, ...about }) {
    this.showFile({ file, ...about });
  }

  showFile({ file, name, media_type: type, size, untrusted }) {
    if (this.files.has(file)) return;
    this.files.add(file);
    const address = `/api/v1/files/${file}/content`;
    const facts = [type, sizeOf(size), untrusted ? "may contain text written by strangers" : ""];
    const line = make("span", {}, make("a", { href: address, download: name, textContent: name }), " ", make("small", { className: "soft", textContent: facts.filter(Boolean).join(", ") }));
    const picture = IMAGES.includes(type) ? [make("img", { src: `/api/v1/files/${file}/preview`, alt: "", loading: "lazy" })] : [];
    this.stream.append(make("ul", { className: "files", ariaLabel: "Files" }, make("li", {}, ...picture, line)));
  }

  // Runs below this one have events of their own.
  async showFilesBelow(run) {
    const made = await api(`runs/${run}/artifacts/?limit=200`).catch(() => null);
    for (const artifact of made?.results ?? []) this.showFile(artifact);
  }

  approval_requested({ id, tool, arguments: given, expires_at: until, effect, reason, findings = [] }) {
    const field = make("textarea", { className: "code", rows: 4, value: JSON.stringify(given, null, 2), spellcheck: false, id: `ask-${id}` });
    const wrong = make("p", { className: "wrong small", role: "alert" });
    const decide = async (decision) => {
      wrong.textContent = "";
      try {
        const edited = JSON.parse(field.value);
        const body = { decision };
        if (decision === "approve" && JSON.stringify(edited) !== JSON.stringify(given)) body.arguments = edited;
        await api(`approvals/${id}`, { method: "POST", body });
      } catch (error) { wrong.textContent = error.message; }
    };
    const yes = make("button", { className: "primary", type: "button", textContent: "Approve", onclick: () => decide("approve") });
    const no = make("button", { className: "danger", type: "button", textContent: "Deny", onclick: () => decide("deny") });
    const time = make("time", { dateTime: until ?? "" });
    time.dataset.ago = "";
    const ask = make("div", { className: "ask", role: "group", ariaLabel: `Approval of ${tool}` },
      make("p", {}, make("strong", { textContent: tool }), effect ? ` (${effect})` : "", " needs your approval. Expires ", time, "."),
      ...(reason ? [make("p", { className: "small", textContent: reason })] : []), ...origins(findings),
      make("label", { htmlFor: `ask-${id}`, className: "small", textContent: "Arguments" }), field, wrong, make("div", { className: "row" }, yes, no));
    localise(ask);
    this.ask = this.ask ?? new Map();
    this.ask.set(id, { ask, shown: this.mark(tool, "running", "waiting") });
    this.stream.append(ask);
    yes.focus();
  }

  approval_decided({ id, status, by }) {
    const { ask, shown } = this.ask?.get(id) ?? {};
    ask?.replaceChildren(make("p", { className: "small", textContent: `${status}${by ? ` by ${by}` : ""}` }));
    if (shown?.pill.textContent === "waiting") this.setState(shown.pill, "running");
  }

  /** The newest call of this tool in one state, moved to another. */
  mark(tool, from, to) {
    const shown = [...this.calls.values()].reverse().find((one) => one.name === tool && one.pill.textContent === from);
    if (shown) this.setState(shown.pill, to);
    return shown;
  }

  setState(pill, state) {
    pill.className = `pill ${state}`;
    pill.textContent = state;
  }

  child_started({ run, agent, chain }) {
    this.hasChildren = true;
    this.stream.append(make("p", { className: "small soft" }, `${agent ?? chain ?? "Another agent"} is working on it. `, make("a", { href: `/runs/${run}/`, textContent: "Open its run" })));
  }

  run_finished({ status, error, reply, usage }) {
    this.status?.remove();
    this.lastRun = this.run;
    if (this.hasChildren) this.showFilesBelow(this.run);
    for (const bubble of this.turns.values()) bubble.classList.remove("live");
    if (reply?.text && ![...this.turns.values()].some((bubble) => bubble.textContent === reply.text)) this.stream.append(make("div", { className: "say assistant", textContent: reply.text }));
    if (reply?.untrusted) this.stream.append(make("p", { className: "note warning", textContent: "This answer is based on untrusted content and may repeat its claims." }));
    if (error) this.stream.append(make("p", { className: "note error", textContent: `${error.message ?? status}` }));
    const words = [status, usage ? `${usage.input_tokens} + ${usage.output_tokens} tokens` : "", Number(usage?.cost) ? money(usage.cost) : ""];
    this.stream.append(make("p", { className: "small soft" }, words.filter(Boolean).join(" · "), " · ", make("a", { href: `/runs/${this.run}/`, textContent: "Run page" })));
  }

  addVerbs(bubble, message, run) {
    if (!run) return;
    const again = make("button", { className: "quiet small", type: "button", textContent: "Retry from here", onclick: () => this.retry(message, run, bubble) });
    const edit = make("button", { className: "quiet small", type: "button", textContent: "Edit", onclick: () => this.edit(message, run, bubble) });
    bubble.after(make("div", { className: "say-verbs row" }, again, edit));
  }

  // What was said from this message on goes away; the new branch is a session of its own.
  async branch(run, bubble) {
    const response = await fetch("/playground/fork", { method: "POST", headers: { "Content-Type": "application/json", "X-CSRFToken": csrf() }, body: JSON.stringify({ session: this.session, run }) });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error.message);
    this.session = answer.session;
    while (bubble.nextSibling) bubble.nextSibling.remove();
    bubble.remove();
  }

  async retry(message, run, bubble) {
    try { await this.branch(run, bubble); await work([this], message); } catch (error) { tell(error.message); }
  }

  edit(message, run, bubble) {
    text.value = message;
    text.focus();
    this.pending = () => this.branch(run, bubble);
  }

  async cancel() {
    if (this.run) await api(`runs/${this.run}/cancel`, { method: "POST", body: {} }).catch((error) => tell(error.message));
  }
}

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const sizeOf = (bytes) => (bytes < 1024 ? `${bytes} bytes` : bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / (1 << 20)).toFixed(1)} MB`);
const label = (words) => make("p", { className: "small label", textContent: words });
const json = (value) => make("pre", { className: "json", textContent: typeof value === "string" ? value : JSON.stringify(value, null, 2), tabIndex: 0 });
const duration = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

async function work(columns, message) {
  composer.querySelector("[data-send]").disabled = true;
  stop.hidden = false;
  await Promise.all(columns.map((column) => column.send(message)));
  stop.hidden = true;
  composer.querySelector("[data-send]").disabled = false;
  text.focus();
}

if (composer) {
  composer.querySelector("[data-send]").disabled = false; // before this script came, sending would have lost the text
  const columns = [...document.querySelectorAll(".column")].map((element) => new Column(element));
  composer.addEventListener("submit", async (event) => {
    event.preventDefault();
    const message = text.value.trim();
    if (!message || composer.querySelector("[data-send]").disabled) return;
    text.value = "";
    for (const column of columns) {
      const pending = column.pending;
      column.pending = null;
      try { await pending?.(); } catch (error) { tell(error.message); }
    }
    await work(columns, message);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); composer.requestSubmit(); }
  });
  for (const button of document.querySelectorAll("[data-say]")) button.addEventListener("click", () => { text.value = button.dataset.say; composer.requestSubmit(); });
  stop.addEventListener("click", () => { for (const column of columns) column.cancel(); });
  document.querySelector("[data-snippets]")?.addEventListener("click", () => showSnippets(columns[0]));
}

function showSnippets(column) {
  const name = column.agent.value.trim();
  const path = `/api/v1/${name ? `agents/${name}/` : ""}messages`;
  const message = text.value.trim() || [...column.stream.querySelectorAll(".say.user")].at(-1)?.textContent || "Hello";
  const body = JSON.stringify({ message });
  document.getElementById("snippet-curl").textContent = `curl ${location.origin}${path} \\\n  -H "Authorization: Bearer $MUSTER_KEY" -H "Content-Type: application/json" \\\n  -d '${body.replaceAll("'", "'\\''")}'`;
  document.getElementById("snippet-python").textContent = `import os\nimport httpx\n\nanswer = httpx.post(\n    "${location.origin}${path}",\n    headers={"Authorization": f"Bearer {os.environ['MUSTER_KEY']}"},\n    json={"message": ${JSON.stringify(message)}},\n    timeout=90,\n)\nanswer.raise_for_status()\nprint(answer.json()["reply"]["text"])`;
  const socket = `${location.origin.replace(/^http/, "ws")}/ws/sessions/${column.session ?? "SESSION"}/`;
  const first = column.session ? "" : "# Say something here first: then this holds the id of the conversation.\n";
  document.getElementById("snippet-websocket").textContent = `${first}import asyncio, json, os\nimport websockets\n\nasync def main():\n    headers = {"Authorization": f"Bearer {os.environ['MUSTER_KEY']}"}\n    async with websockets.connect("${socket}", additional_headers=headers) as socket:\n        await socket.send(json.dumps({"type": "message", "text": ${JSON.stringify(message)}}))\n        async for frame in socket:\n            event = json.loads(frame)\n            print(event["type"], event.get("data"))\n            if event["type"] == "run.finished":\n                break\n\nasyncio.run(main())`;
  document.getElementById("snippets").showModal();
}
