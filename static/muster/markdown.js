// Markdown of a reply as DOM: tables, highlighted code with a copy button, mathematics as MathML. HTML in the text stays
// text, pictures become links (a reply must not make the browser fetch an address), and no inline style is written.
import { copy } from "./page.js";
import { gettext } from "./texts.js";

/** @typedef {import("./vendor/markdown.js").RenderRule} RenderRule */
/** @typedef {InstanceType<typeof import("./vendor/markdown.js").MarkdownIt>} Parser */

/** @param {Parser} parser */
function prepare(parser) {
  parser.disable("image");
  parser.validateLink = (url) => /^(https?:|mailto:|\/(?!\/)|#)/i.test(url.trim());
  /** @type {RenderRule} */
  const openLink = parser.renderer.rules.link_open ?? ((tokens, index, options, env, self) => self.renderToken(tokens, index, options));
  parser.renderer.rules.link_open = (tokens, index, ...more) => {
    tokens[index].attrSet("target", "_blank");
    tokens[index].attrSet("rel", "noopener noreferrer nofollow");
    return openLink(tokens, index, ...more);
  };
  parser.renderer.rules.table_open = () => `<div class="scroll" tabindex="0" role="region" aria-label="${gettext("Table")}"><table>`;
  parser.renderer.rules.table_close = () => "</table></div>";
  for (const cell of ["th_open", "td_open"]) parser.renderer.rules[cell] = (tokens, index, options, env, self) => {
    const token = tokens[index]; // alignment comes as a style, which the content policy refuses
    const align = String(token.attrGet("style") ?? "").replace("text-align:", "");
    token.attrs = [["class", align ? `align-${align}` : ""]];
    if (token.tag === "th") token.attrSet("scope", "col");
    return self.renderToken(tokens, index, options);
  };
  parser.inline.ruler.before("escape", "math", inlineMath);
  parser.block.ruler.before("fence", "math", blockMath, { alt: ["paragraph", "reference", "blockquote", "list"] });
  parser.renderer.rules.math = (tokens, index) => `<span class="math" data-display="${tokens[index].markup}">${parser.utils.escapeHtml(tokens[index].content)}</span>`;
  return parser;
}

/** @type {Parser | null} */
let parser = null;
/** @type {Promise<void> | undefined} */
let loading;

/** The parser is the largest part of a chat: it comes when the page works, or with the first answer. */
function loadParser() {
  loading ??= import("./vendor/markdown.js").then(({ MarkdownIt }) => {
    parser = prepare(new MarkdownIt({ html: false, linkify: true, breaks: true }));
  });
  loading.catch(() => { loading = undefined; }); // the text stays readable; the next answer tries again
  return loading;
}

if (document.readyState === "complete") loadParser();
else addEventListener("load", loadParser);

/** $…$, \(…\), and in one line $$…$$ and \[…\]. An amount such as $5 is none. @type {import("./vendor/markdown.js").RuleInline} */
function inlineMath(state, silent) {
  const rest = state.src.slice(state.pos);
  const found = /^\$\$([^$]+)\$\$/.exec(rest) ?? /^\\\[([^]+?)\\\]/.exec(rest) ?? /^\\\(([^]+?)\\\)/.exec(rest) ?? /^\$(?![\s$])((?:[^$\\\n]|\\.)+?)(?<!\s)\$(?!\d)/.exec(rest);
  if (!found) return false;
  if (!silent) {
    const token = state.push("math", "", 0);
    token.content = found[1];
    token.markup = found[0].startsWith("$$") || found[0].startsWith("\\[") ? "block" : "inline";
  }
  state.pos += found[0].length;
  return true;
}

/** $$ or \[ on a line of its own, up to $$ or \]. @type {import("./vendor/markdown.js").RuleBlock} */
function blockMath(state, startLine, endLine, silent) {
  const line = (/** @type {number} */ number) => state.src.slice(state.bMarks[number] + state.tShift[number], state.eMarks[number]).trim();
  const first = line(startLine);
  const close = first === "$$" ? "$$" : first === "\\[" ? "\\]" : "";
  if (!close) return false;
  let end = startLine + 1;
  while (end < endLine && line(end) !== close) end += 1;
  if (end >= endLine) return false;
  if (silent) return true;
  const token = state.push("math", "", 0);
  token.content = state.getLines(startLine + 1, end, 0, false);
  token.markup = "block";
  state.line = end + 1;
  return true;
}

/** @type {Promise<typeof import("./vendor/temml.js")> | undefined} */
let mathematics;
/** @type {Promise<typeof import("./vendor/highlight.js")> | undefined} */
let highlighter;

/** @param {Element} code @param {string} language */
function highlight(code, language) {
  highlighter ??= import("./vendor/highlight.js");
  highlighter.then(({ hljs }) => {
    if (hljs.getLanguage(language)) code.innerHTML = hljs.highlight(code.textContent, { language, ignoreIllegals: true }).value;
  }).catch(() => {}); // without colours
}

/** @param {DocumentFragment} fragment */
function setMath(fragment) {
  const places = /** @type {HTMLElement[]} */ ([...fragment.querySelectorAll(".math")]);
  if (!places.length) return;
  mathematics ??= import("./vendor/temml.js");
  mathematics.then(({ temml }) => {
    for (const place of places) temml.render(place.textContent, place, { displayMode: place.dataset.display === "block", throwOnError: false, trust: false, maxExpand: 200, maxSize: [25, 25] });
  }).catch(() => {}); // the source stays readable
}

/** @param {DocumentFragment} fragment */
function frameCode(fragment) {
  for (const code of fragment.querySelectorAll("pre > code")) {
    const pre = /** @type {HTMLElement} */ (code.parentElement);
    pre.tabIndex = 0;
    const language = /language-([\w+-]+)/.exec(code.className)?.[1] ?? "";
    if (language) highlight(code, language);
    const button = Object.assign(document.createElement("button"), { type: "button", className: "quiet small", textContent: gettext("Copy") });
    button.addEventListener("click", () => copy(code.textContent ?? "", button));
    const head = Object.assign(document.createElement("div"), { className: "code-head" });
    head.append(Object.assign(document.createElement("span"), { className: "small soft", textContent: language }), button);
    const frame = Object.assign(document.createElement("div"), { className: "code-block" });
    pre.replaceWith(frame);
    frame.append(head, pre);
  }
}

/** “- [ ] …” and “- [x] …” as boxes that nobody can tick: the list is a part of the answer. @param {DocumentFragment} fragment */
function drawTasks(fragment) {
  for (const item of fragment.querySelectorAll("li")) {
    const first = item.firstChild instanceof HTMLParagraphElement ? item.firstChild.firstChild : item.firstChild;
    const mark = first instanceof Text ? /^\s*\[([ xX])\]\s/.exec(first.data) : null;
    if (!mark || !first) continue;
    /** @type {Text} */ (first).data = /** @type {Text} */ (first).data.slice(mark[0].length);
    const isDone = mark[1] !== " ";
    const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: isDone, disabled: true, ariaLabel: isDone ? gettext("done") : gettext("open") });
    first.before(box, " ");
    item.classList.add("task");
  }
}

/**
 * As plain text until the parser is there.
 * @param {string} text Markdown
 * @returns {DocumentFragment}
 */
export function renderMarkdown(text) {
  if (parser) return draw(parser, text);
  const place = Object.assign(document.createElement("div"), { className: "plain", textContent: text });
  loadParser().then(() => { if (parser) place.replaceWith(draw(parser, text)); }).catch(() => {});
  const fragment = document.createDocumentFragment();
  fragment.append(place);
  return fragment;
}

/** @param {Parser} parser @param {string} text */
function draw(parser, text) {
  const template = document.createElement("template");
  template.innerHTML = parser.render(text).trim();
  const fragment = document.importNode(template.content, true);
  for (const block of fragment.children) if (block.tagName !== "PRE") /** @type {HTMLElement} */ (block).dir = "auto"; // each in the direction of its letters
  drawTasks(fragment);
  frameCode(fragment);
  setMath(fragment);
  return fragment;
}
