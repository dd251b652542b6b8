// Markdown as elements: paragraphs, headings, lists, code, bold, italic, links. Text becomes text nodes only, so a
// reply can neither run anything nor load anything; pictures stay text, since their address could carry words away.

const LINK = /^(https?:\/\/|mailto:)[^\s<>"]+$/i;
const ITEM = /^\s*(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/;
const HEADING = /^#{1,6}\s+(.*)$/;
const FENCE = /^\s*```/;
const QUOTE = /^>\s?/;
const BEGINS_BLOCK = /^(\s*```|#{1,6}\s|>)/;
// The groups of INLINE, in this order; `formatInline` takes them apart.
const CODE = /(`{1,3})([\s\S]+?)\1/;
const BOLD = /\*\*([\s\S]+?)\*\*/;
const ITALIC = /(?<![\w*])[*_]([^*_\n]+)[*_](?![\w*])/;
const NAMED_LINK = /!?\[([^\]\n]+)\]\(([^()\s]+)\)/;
const ADDRESS = /(https?:\/\/[^\s<>"')\]]+[^\s<>"')\].,;:!?])/;
const INLINE = new RegExp([CODE, BOLD, ITALIC, NAMED_LINK, ADDRESS].map((pattern) => pattern.source).join("|"));
// Bold in a link in italics … deeper than this stays as it was written, so that no text costs much time.
const DEEPEST = 4;

/** The text as elements. @param {string} text @returns {DocumentFragment} */
export function markdown(text) {
  const fragment = document.createDocumentFragment();
  const lines = text.split("\n");
  while (lines.length) fragment.append(...buildBlock(lines));
  for (const block of fragment.children) {
    // Each block runs in the direction of its letters; code always runs from left to right.
    if (block instanceof HTMLElement && block.tagName !== "PRE") block.dir = "auto";
  }
  return fragment;
}

/**
 * The block that begins with the first line.
 * @param {string[]} lines those of the block are removed @returns {Element[]}
 */
function buildBlock(lines) {
  const line = lines.shift() ?? "";
  if (!line.trim()) return [];
  if (FENCE.test(line)) return [buildCode(lines)];
  const heading = HEADING.exec(line);
  if (heading) return [buildElement("p", buildElement("strong", ...formatText(heading[1])))];
  if (ITEM.test(line)) return [buildList([line, ...takeLines(lines, (next) => ITEM.test(next))])];
  if (QUOTE.test(line)) return [buildQuote([line, ...takeLines(lines, (next) => next.startsWith(">"))])];
  return [buildParagraph([line, ...takeLines(lines, continuesParagraph)])];
}

/** @param {string} line */
function continuesParagraph(line) {
  return Boolean(line.trim()) && !ITEM.test(line) && !BEGINS_BLOCK.test(line);
}

/**
 * Removes the first lines that fit, and returns them.
 * @param {string[]} lines @param {(line: string) => boolean} fits
 */
function takeLines(lines, fits) {
  const end = lines.findIndex((line) => !fits(line));
  return lines.splice(0, end < 0 ? lines.length : end);
}

/** @param {string[]} lines after the fence that opens the code; those of the code are removed */
function buildCode(lines) {
  const code = takeLines(lines, (line) => !FENCE.test(line));
  lines.shift(); // the fence that closes it
  const block = buildElement("pre", buildElement("code", code.join("\n")));
  block.tabIndex = 0; // the keyboard can scroll it
  return block;
}

/** @param {string[]} lines each with its mark */
function buildQuote(lines) {
  const inner = lines.map((line) => line.replace(QUOTE, ""));
  return buildElement("blockquote", markdown(inner.join("\n")));
}

/** @param {string[]} lines */
function buildParagraph(lines) {
  const paragraph = buildElement("p");
  lines.forEach((line, index) => {
    if (index > 0) paragraph.append(buildElement("br"));
    paragraph.append(...formatText(line));
  });
  return paragraph;
}

/** @param {string[]} lines each fits ITEM */
function buildList(lines) {
  const items = lines.map((line) => buildElement("li", ...formatText(ITEM.exec(line)?.[3] ?? "")));
  const firstNumber = ITEM.exec(lines[0])?.[2];
  if (firstNumber === undefined) return buildElement("ul", ...items);
  const list = buildElement("ol", ...items);
  list.start = Number(firstNumber);
  return list;
}

/** A line with what is bold, italic, code or a link in it. @param {string} text @returns {(Node | string)[]} */
function formatText(text, depth = 0) {
  if (depth >= DEEPEST) return [text];
  /** @type {(Node | string)[]} */
  const parts = [];
  let rest = text;
  while (rest) {
    const match = INLINE.exec(rest);
    if (!match) return [...parts, rest];
    parts.push(rest.slice(0, match.index), formatInline(match, depth + 1));
    rest = rest.slice(match.index + match[0].length);
  }
  return parts;
}

/** @param {RegExpExecArray} match of INLINE @param {number} depth @returns {Node | string} */
function formatInline([whole, , code, bold, italic, label, target, bare], depth) {
  if (code !== undefined) return buildElement("code", code);
  if (bold !== undefined) return buildElement("strong", ...formatText(bold, depth));
  if (italic !== undefined) return buildElement("em", ...formatText(italic, depth));
  const address = target ?? bare;
  const isPicture = whole.startsWith("!");
  if (isPicture || !LINK.test(address)) return whole;
  const link = buildElement("a", label ?? bare);
  return Object.assign(link, { href: address, target: "_blank", rel: "noopener noreferrer nofollow" });
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} name @param {...(Node | string)} children @returns {HTMLElementTagNameMap[T]}
 */
function buildElement(name, ...children) {
  const element = document.createElement(name);
  element.append(...children);
  return element;
}
