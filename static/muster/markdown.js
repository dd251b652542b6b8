// Markdown of a reply as DOM: tables, highlighted code with a copy button, mathematics as MathML. HTML in the text
// stays text, pictures become links (a reply must not make the browser fetch an address), and no inline style is
// written.
import { copy, make } from "./page.js";
import { gettext } from "./texts.js";

/** @typedef {import("./vendor/markdown.js").RenderRule} RenderRule */
/** @typedef {InstanceType<typeof import("./vendor/markdown.js").MarkdownIt>} Parser */

const SAFE_ADDRESS = /^(https?:|mailto:|\/(?!\/)|#)/i;
// Mathematics within a line. An amount such as $5 is none.
const INLINE_MATH = [
  /^\$\$([^$]+)\$\$/,
  /^\\\[([^]+?)\\\]/,
  /^\\\(([^]+?)\\\)/,
  /^\$(?![\s$])((?:[^$\\\n]|\\.)+?)(?<!\s)\$(?!\d)/,
];
// What closes mathematics on lines of its own, by what opens it.
const BLOCK_MATH = new Map([
  ["$$", "$$"],
  ["\\[", "\\]"],
]);
// A formula can neither expand without end nor cover the page.
/** @type {[number, number]} */
const LARGEST = [25, 25];
const TEMML_OPTIONS = { throwOnError: false, trust: false, maxExpand: 200, maxSize: LARGEST };

/** @type {Parser | null} */
let parser = null;
/** @type {Promise<void> | undefined} */
let loading;

/** The parser is the largest part of a chat: it comes when the page works, or with the first answer. */
function loadParser() {
  loading ??= import("./vendor/markdown.js").then(({ MarkdownIt }) => {
    parser = prepare(new MarkdownIt({ html: false, linkify: true, breaks: true }));
  });
  loading.catch(() => {
    loading = undefined; // the text stays readable; the next answer tries again
  });
  return loading;
}

if (document.readyState === "complete") loadParser();
else addEventListener("load", loadParser);

/** Teaches the parser our rules. @param {Parser} parser */
function prepare(parser) {
  const { rules } = parser.renderer;
  parser.disable("image");
  parser.validateLink = (url) => SAFE_ADDRESS.test(url.trim());
  parser.inline.ruler.before("escape", "math", parseInlineMath);
  const places = { alt: ["paragraph", "reference", "blockquote", "list"] };
  parser.block.ruler.before("fence", "math", parseBlockMath, places);

  /** @type {RenderRule} */
  const openLink = rules.link_open ?? ((tokens, index, options, env, self) => self.renderToken(tokens, index, options));
  rules.link_open = (tokens, index, ...more) => {
    tokens[index].attrSet("target", "_blank");
    tokens[index].attrSet("rel", "noopener noreferrer nofollow");
    return openLink(tokens, index, ...more);
  };
  const label = parser.utils.escapeHtml(gettext("Table"));
  rules.table_open = () => `<div class="scroll" tabindex="0" role="region" aria-label="${label}"><table>`;
  rules.table_close = () => "</table></div>";
  rules.th_open = openCell;
  rules.td_open = openCell;
  rules.math = (tokens, index) => {
    const { markup, content } = tokens[index];
    return `<span class="math" data-display="${markup}">${parser.utils.escapeHtml(content)}</span>`;
  };
  return parser;
}

/** @type {RenderRule} */
function openCell(tokens, index, options, env, self) {
  const token = tokens[index];
  // The parser gives the alignment as a style, which the content policy refuses.
  const align = String(token.attrGet("style") ?? "").replace("text-align:", "");
  token.attrs = [["class", align ? `align-${align}` : ""]];
  if (token.tag === "th") token.attrSet("scope", "col");
  return self.renderToken(tokens, index, options);
}

/** $…$, \(…\), and in one line $$…$$ and \[…\]. @type {import("./vendor/markdown.js").RuleInline} */
function parseInlineMath(state, silent) {
  const rest = state.src.slice(state.pos);
  const match = INLINE_MATH.map((pattern) => pattern.exec(rest)).find(Boolean);
  if (!match) return false;
  const [whole, content] = match;
  if (!silent) {
    const isBlock = whole.startsWith("$$") || whole.startsWith("\\[");
    const token = state.push("math", "", 0);
    token.content = content;
    token.markup = isBlock ? "block" : "inline";
  }
  state.pos += whole.length;
  return true;
}

/** $$ or \[ on a line of its own, up to $$ or \]. @type {import("./vendor/markdown.js").RuleBlock} */
function parseBlockMath(state, startLine, endLine, silent) {
  const closing = BLOCK_MATH.get(readLine(state, startLine));
  if (!closing) return false;
  let end = startLine + 1;
  while (end < endLine && readLine(state, end) !== closing) end += 1;
  if (end >= endLine) return false;
  if (silent) return true;
  const token = state.push("math", "", 0);
  token.content = state.getLines(startLine + 1, end, 0, false);
  token.markup = "block";
  state.line = end + 1;
  return true;
}

/** @param {Parameters<import("./vendor/markdown.js").RuleBlock>[0]} state @param {number} number */
function readLine(state, number) {
  const start = state.bMarks[number] + state.tShift[number];
  return state.src.slice(start, state.eMarks[number]).trim();
}

// Both are large, so they are loaded with the first reply that needs them.
/** @type {Promise<typeof import("./vendor/temml.js")> | undefined} */
let mathematics;
/** @type {Promise<typeof import("./vendor/highlight.js")> | undefined} */
let highlighter;

/** Colours the code as soon as the highlighter is there. @param {Element} code @param {string} language */
async function highlight(code, language) {
  highlighter ??= import("./vendor/highlight.js");
  try {
    const { hljs } = await highlighter;
    if (!hljs.getLanguage(language)) return;
    const options = { language, ignoreIllegals: true };
    code.innerHTML = hljs.highlight(code.textContent, options).value;
  } catch {
    // The code stays without colours; the next one tries again.
    highlighter = undefined;
  }
}

/** Replaces the sources of formulas by MathML. @param {DocumentFragment} fragment */
async function renderMath(fragment) {
  const places = /** @type {HTMLElement[]} */ ([...fragment.querySelectorAll(".math")]);
  if (!places.length) return;
  mathematics ??= import("./vendor/temml.js");
  try {
    const { temml } = await mathematics;
    for (const place of places) {
      const displayMode = place.dataset.display === "block";
      temml.render(place.textContent, place, { displayMode, ...TEMML_OPTIONS });
    }
  } catch {
    // The source stays readable; the next formula tries again.
    mathematics = undefined;
  }
}

/** Gives each block of code a head with its language and a button that copies it. @param {DocumentFragment} fragment */
function frameCode(fragment) {
  for (const code of fragment.querySelectorAll("pre > code")) {
    const pre = /** @type {HTMLElement} */ (code.parentElement);
    pre.tabIndex = 0; // the keyboard can scroll it
    const language = /language-([\w+-]+)/.exec(code.className)?.[1] ?? "";
    if (language) highlight(code, language);
    const button = make("button", { type: "button", className: "quiet small", textContent: gettext("Copy") });
    button.addEventListener("click", () => copy(code.textContent ?? "", button));
    const name = make("span", { className: "small soft", textContent: language });
    const head = make("div", { className: "code-head" }, name, button);
    const frame = make("div", { className: "code-block" });
    pre.replaceWith(frame);
    frame.append(head, pre);
  }
}

/** “- [ ] …” and “- [x] …” as boxes that nobody can tick: the list is a part of the answer. @param {DocumentFragment} fragment */
function drawTasks(fragment) {
  for (const item of fragment.querySelectorAll("li")) {
    const { firstChild } = item;
    const text = firstChild instanceof HTMLParagraphElement ? firstChild.firstChild : firstChild;
    if (!(text instanceof Text)) continue;
    const mark = /^\s*\[([ xX])\]\s/.exec(text.data);
    if (!mark) continue;
    text.data = text.data.slice(mark[0].length);
    const isDone = mark[1] !== " ";
    const ariaLabel = isDone ? gettext("done") : gettext("open");
    text.before(make("input", { type: "checkbox", checked: isDone, disabled: true, ariaLabel }), " ");
    item.classList.add("task");
  }
}

/**
 * The reply as people see it, and as plain text until the parser is there. Colours and formulas appear when their
 * programs are loaded.
 * @param {string} text Markdown
 * @returns {DocumentFragment}
 */
export function renderMarkdown(text) {
  if (parser) return draw(parser, text);
  const place = make("div", { className: "plain", textContent: text });
  loadParser().then(() => {
    // A text that was replaced meanwhile needs no drawing.
    if (parser && place.parentNode) place.replaceWith(draw(parser, text));
  }).catch(() => {}); // it stays as it is
  const fragment = document.createDocumentFragment();
  fragment.append(place);
  return fragment;
}

/** @param {Parser} parser @param {string} text */
function draw(parser, text) {
  const template = document.createElement("template");
  template.innerHTML = parser.render(text).trim();
  const fragment = document.importNode(template.content, true);
  for (const block of fragment.children) {
    // Each block runs in the direction of its letters; code always runs from left to right.
    if (block instanceof HTMLElement && block.tagName !== "PRE") block.dir = "auto";
  }
  drawTasks(fragment);
  frameCode(fragment);
  renderMath(fragment);
  return fragment;
}
