// Turns every <textarea data-editor="python|json"> into a CodeMirror editor. The textarea stays the form's field, so
// the page works without this file. With data-validate, or by an event, what is wrong is shown at its lines while typing.
import { basicSetup, EditorView } from "codemirror";
import { python, pythonLanguage } from "@codemirror/lang-python";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { indentUnit } from "@codemirror/language";
import { linter, lintGutter, setDiagnostics } from "@codemirror/lint";
import { keymap } from "@codemirror/view";
import { indentWithTab } from "@codemirror/commands";
import { oneDark } from "@codemirror/theme-one-dark";

// What each language adds to an editor.
const LANGUAGES = {
  python: () => [python(), pythonLanguage.data.of({ autocomplete: completeContext }), indentUnit.of("    ")],
  json: () => [json(), indentUnit.of("  "), linter(checkJson)],
};

// An empty field means no value; it is no mistake.
function checkJson(view) {
  const isEmpty = !view.state.doc.toString().trim();
  return isEmpty ? [] : jsonParseLinter()(view);
}

// What a function may ask of `ctx`, as functions/stubs.pyi says (a test compares the two).
const CONTEXT = {
  call: ["(name, **arguments)", "Call a granted function or tool by name."],
  http: ["(url, method=\"GET\", *, headers, params, json, body, auth, timeout)", "Fetch an address on the function's list."],
  kv_get: ["(key, default=None)", "A value that an earlier function of this run left."],
  kv_set: ["(key, value)", "Leave a JSON value for later functions of this run."],
  save_file: ['(name, data, media_type="")', "Store text or bytes as a file of this run."],
  log: ["(message, level=\"info\", **fields)", "Write a line into the run's record."],
  progress: ["(done, total=None, message=\"\")", "Say how far the work is."],
  get: ["(key, default=None)", "A value of the run's data."],
  run: ["", "The run's id."],
  agent: ["", "The agent's name."],
  user: ["", "The id of the person for whom it runs."],
  session: ["", "The session's id."],
  chain: ["", "The chain's name."],
  step: ["", "The step's key."],
  metadata: ["", "The run's metadata."],
};

// Offers the names of CONTEXT behind “ctx.”.
function completeContext(context) {
  const match = context.matchBefore(/\bctx\.\w*/);
  if (!match) return null;
  const options = Object.entries(CONTEXT).map(([label, [detail, info]]) => {
    const type = detail ? "method" : "property";
    return { label, detail, info, type };
  });
  return { from: match.from + "ctx.".length, options, validFor: /^\w*$/ };
}

// Puts an editor before the text area, and hides that.
function enhance(area) {
  const extensions = [
    basicSetup,
    keymap.of([indentWithTab]),
    ...LANGUAGES[area.dataset.editor](),
    lintGutter(),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": area.dataset.label || area.name }),
    EditorView.updateListener.of((update) => {
      if (!update.docChanged) return;
      area.value = update.state.doc.toString();
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }),
  ];
  if (isDark()) extensions.push(oneDark);
  if (area.dataset.validate) extensions.push(linter((view) => checkOnServer(area, view), { delay: 500 }));
  if (area.readOnly || area.disabled) extensions.push(EditorView.editable.of(false));
  const view = area.dataset.shadow ? drawInShadow(area, extensions) : drawInPage(area, extensions);
  // A page that checks the source itself says what is wrong:
  // new CustomEvent("refusals", { detail: [{line, message, …}] }).
  area.addEventListener("refusals", (event) => {
    const diagnostics = event.detail.map((refusal) => buildDiagnostic(view.state.doc, refusal));
    view.dispatch(setDiagnostics(view.state, diagnostics));
  });
  area.hidden = true;
  area.required = false; // a hidden field cannot be focused by the browser; the server says what is missing
}

function drawInPage(area, extensions) {
  const view = new EditorView({ doc: area.value, extensions });
  view.dom.classList.add("code-editor");
  view.dom.classList.toggle("tall", area.rows >= 15);
  area.insertAdjacentElement("beforebegin", view.dom);
  return view;
}

// In a shadow root the editor's styles are constructed sheets, which a strict content policy lets through.
function drawInShadow(area, extensions) {
  const host = document.createElement("div");
  const root = host.attachShadow({ mode: "open" });
  const look = EditorView.theme({
    "&": { minHeight: "26rem", fontSize: "13px" },
    "&, .cm-content": { backgroundColor: "var(--card)" },
    ".cm-gutters, .cm-activeLineGutter": { backgroundColor: "var(--sunk)", color: "var(--soft)" },
    ".cm-scroller": { fontFamily: "var(--mono)", overflow: "visible" },
    "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  });
  area.insertAdjacentElement("beforebegin", host);
  return new EditorView({ doc: area.value, extensions: [look, ...extensions], root, parent: root });
}

function isDark() {
  const page = document.documentElement;
  if (page.classList.contains("dark")) return true;
  if (page.dataset.theme) return page.dataset.theme === "dark";
  const allowsDark = getComputedStyle(page).colorScheme.includes("dark");
  return allowsDark && matchMedia("(prefers-color-scheme: dark)").matches;
}

// What the server refuses in this source, as the editor shows it.
async function checkOnServer(area, view) {
  const source = view.state.doc.toString();
  if (!source.trim()) return [];
  let answer;
  try {
    answer = await postSource(area, source);
  } catch {
    return []; // offline: the server checks again when the form is sent
  }
  const refusals = answer.refusals || (answer.error && answer.error.details) || [];
  listRefusals(view, refusals);
  return refusals.map((refusal) => buildDiagnostic(view.state.doc, refusal));
}

async function postSource(area, source) {
  const token = area.form && area.form.elements.csrfmiddlewaretoken;
  const response = await fetch(area.dataset.validate, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json",
      "X-CSRFToken": token ? token.value : "",
    },
    body: JSON.stringify({ source, ...readRules(area.form) }),
  });
  return response.json();
}

// The fields of the form that say what the source may do.
function readRules(form) {
  const rules = {};
  for (const name of ["entry", "safe_mode", "allowed_imports", "allowed_hosts"]) {
    const field = form && form.elements[name];
    if (!field) continue;
    if (field.type === "checkbox") rules[name] = field.checked;
    else if (name.startsWith("allowed_")) rules[name] = splitLines(field.value);
    else if (field.value) rules[name] = field.value;
  }
  return rules;
}

function splitLines(text) {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter(Boolean);
}

function buildDiagnostic(doc, refusal) {
  const from = findPlace(doc, refusal.line, refusal.column);
  const to = Math.max(from, findPlace(doc, refusal.end_line, refusal.end_column));
  const severity = refusal.severity === "warning" ? "warning" : "error";
  return { from, to, severity, message: formatRefusal(refusal) };
}

// A sentence and its hint.
function formatRefusal(refusal) {
  const message = refusal.message || "This is not accepted";
  const stop = /[.!?]$/.test(message) ? "" : ".";
  return `${message}${stop} ${refusal.hint || ""}`.trim();
}

// The place in the document; the source may have become shorter since it was sent.
function findPlace(doc, lineNumber, column) {
  const number = Math.min(Math.max(lineNumber || 1, 1), doc.lines);
  const line = doc.line(number);
  return Math.min(line.from + Math.max((column || 1) - 1, 0), line.to);
}

// The same refusals as a list below, for those who do not see the squiggles.
function listRefusals(view, refusals) {
  let status = view.dom.nextElementSibling;
  if (!status || !status.classList.contains("code-refusals")) {
    status = document.createElement("div");
    status.className = "code-refusals";
    status.setAttribute("role", "status");
    view.dom.insertAdjacentElement("afterend", status);
  }
  const list = document.createElement("ul");
  for (const refusal of refusals) {
    const item = document.createElement("li");
    item.textContent = `line ${refusal.line || 1}: ${formatRefusal(refusal)}`;
    list.append(item);
  }
  status.replaceChildren();
  if (refusals.length) status.append(list);
}

// Rows that the admin adds later begin as a hidden row, which has “__prefix__” in its names.
function start() {
  for (const area of document.querySelectorAll("textarea[data-editor]")) {
    if (area.dataset.enhanced || area.name.includes("__prefix__")) continue;
    area.dataset.enhanced = "yes";
    enhance(area);
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
