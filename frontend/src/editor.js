// Turns every <textarea data-editor="python|json"> into a CodeMirror editor. The textarea stays the form's field, so the
// page works without this file. With data-validate, or by an event, what is wrong is shown at its lines while typing.
import { basicSetup, EditorView } from "codemirror";
import { python, pythonLanguage } from "@codemirror/lang-python";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { indentUnit } from "@codemirror/language";
import { linter, lintGutter, setDiagnostics } from "@codemirror/lint";
import { keymap } from "@codemirror/view";
import { indentWithTab } from "@codemirror/commands";
import { oneDark } from "@codemirror/theme-one-dark";

const languages = {
  python: () => [python(), pythonLanguage.data.of({ autocomplete: completeContext }), indentUnit.of("    ")],
  json: () => [json(), indentUnit.of("  "), linter((view) => (view.state.doc.toString().trim() ? jsonParseLinter()(view) : []))],
};

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

function completeContext(context) {
  const written = context.matchBefore(/\bctx\.\w*/);
  if (!written) return null;
  const options = Object.entries(CONTEXT).map(([label, [detail, info]]) => ({
    label, detail, info, type: detail ? "method" : "property",
  }));
  return { from: written.from + 4, options, validFor: /^\w*$/ };
}

function enhance(area) {
  const form = area.form;
  const dark = isDark();
  const extensions = [
    basicSetup,
    keymap.of([indentWithTab]),
    ...languages[area.dataset.editor](),
    lintGutter(),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": area.dataset.label || area.name }),
    EditorView.updateListener.of((update) => {
      if (!update.docChanged) return;
      area.value = update.state.doc.toString();
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }),
    ...(dark ? [oneDark] : []),
  ];
  if (area.dataset.validate) extensions.push(linter((view) => refusals(area, form, view), { delay: 500 }));
  if (area.readOnly || area.disabled) extensions.push(EditorView.editable.of(false));
  const view = area.dataset.shadow ? inShadow(area, extensions) : inPage(area, extensions);
  // A page that checks the source itself says what it found: new CustomEvent("refusals", { detail: [{line, message, …}] }).
  area.addEventListener("refusals", (event) => {
    view.dispatch(setDiagnostics(view.state, event.detail.map((one) => diagnostic(view.state.doc, one))));
  });
  area.hidden = true;
  area.required = false; // a hidden field cannot be focused by the browser; the server says what is missing
}

function inPage(area, extensions) {
  const view = new EditorView({ doc: area.value, extensions });
  view.dom.classList.add("code-editor");
  view.dom.classList.toggle("tall", area.rows >= 15);
  area.insertAdjacentElement("beforebegin", view.dom);
  return view;
}

// In a shadow root the editor's styles are constructed sheets, which a strict content policy lets through.
function inShadow(area, extensions) {
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
  if (page.classList.contains("dark") || page.dataset.theme) return page.classList.contains("dark") || page.dataset.theme === "dark";
  return getComputedStyle(page).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches;
}

async function refusals(area, form, view) {
  const source = view.state.doc.toString();
  if (!source.trim()) return [];
  const body = { source };
  for (const name of ["entry", "safe_mode", "allowed_imports", "allowed_hosts"]) {
    const field = form && form.elements[name];
    if (!field) continue;
    if (field.type === "checkbox") body[name] = field.checked;
    else if (name.startsWith("allowed_")) body[name] = field.value.split("\n").map((line) => line.trim()).filter(Boolean);
    else if (field.value) body[name] = field.value;
  }
  const token = form && form.elements.csrfmiddlewaretoken;
  let answer;
  try {
    const response = await fetch(area.dataset.validate, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRFToken": token ? token.value : "" },
      body: JSON.stringify(body),
    });
    answer = await response.json();
  } catch {
    return []; // offline: the server checks again when the form is sent
  }
  const found = answer.refusals || (answer.error && answer.error.details) || [];
  tell(view, found);
  return found.map((one) => diagnostic(view.state.doc, one));
}

function diagnostic(doc, one) {
  const from = place(doc, one.line, one.column);
  const to = Math.max(from, place(doc, one.end_line, one.end_column));
  return { from, to, severity: one.severity === "warning" ? "warning" : "error", message: told(one) };
}

function told(one) {
  const message = one.message || "This is not accepted";
  return `${message}${/[.!?]$/.test(message) ? "" : "."} ${one.hint || ""}`.trim();
}

function place(doc, line, column) {
  const found = doc.line(Math.min(Math.max(line || 1, 1), doc.lines));
  return Math.min(found.from + Math.max((column || 1) - 1, 0), found.to);
}

// The same refusals as a list below, for those who do not see the squiggles.
function tell(view, found) {
  let status = view.dom.nextElementSibling;
  if (!status || !status.classList.contains("code-refusals")) {
    status = document.createElement("div");
    status.className = "code-refusals";
    status.setAttribute("role", "status");
    view.dom.insertAdjacentElement("afterend", status);
  }
  const list = document.createElement("ul");
  for (const one of found) {
    const item = document.createElement("li");
    item.textContent = `line ${one.line || 1}: ${told(one)}`;
    list.append(item);
  }
  status.replaceChildren(...(found.length ? [list] : []));
}

function start() {
  document.querySelectorAll("textarea[data-editor]").forEach((area) => {
    if (!area.dataset.enhanced && !area.name.includes("__prefix__")) {
      area.dataset.enhanced = "yes";
      enhance(area);
    }
  });
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
