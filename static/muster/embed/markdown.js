// Markdown as elements: paragraphs, headings, lists, code, bold, italic, links. Text becomes text nodes only, so a reply
// can neither run anything nor load anything; pictures stay text, since their address could carry words away.
const LINK = /^(https?:\/\/|mailto:)[^\s<>"]+$/i;
const INLINE = /(`{1,3})([\s\S]+?)\1|\*\*([\s\S]+?)\*\*|(?<![\w*])[*_]([^*_\n]+)[*_](?![\w*])|!?\[([^\]\n]+)\]\(([^()\s]+)\)|(https?:\/\/[^\s<>"')\]]+[^\s<>"')\].,;:!?])/;
const ITEM = /^\s*(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/;

/** @param {string} text @returns {DocumentFragment} */
export function markdown(text) {
  const whole = document.createDocumentFragment();
  const lines = text.split("\n");
  while (lines.length) whole.append(...block(lines));
  for (const one of whole.children) if (one.tagName !== "PRE") /** @type {HTMLElement} */ (one).dir = "auto";
  return whole;
}

/** @param {string[]} lines those of the block are taken away @returns {Element[]} */
function block(lines) {
  const line = lines.shift() ?? "";
  if (!line.trim()) return [];
  if (/^\s*```/.test(line)) return [fence(lines)];
  const heading = /^#{1,6}\s+(.*)$/.exec(line);
  if (heading) return [element("p", element("strong", ...inline(heading[1])))];
  if (ITEM.test(line)) return [list([line, ...taken(lines, (next) => ITEM.test(next))])];
  if (/^>\s?/.test(line)) return [element("blockquote", markdown([line, ...taken(lines, (next) => next.startsWith(">"))].map((one) => one.replace(/^>\s?/, "")).join("\n")))];
  const more = taken(lines, (next) => Boolean(next.trim()) && !ITEM.test(next) && !/^(\s*```|#{1,6}\s|>)/.test(next));
  return [element("p", ...[line, ...more].flatMap((one, place) => [...(place ? [element("br")] : []), ...inline(one)]))];
}

/** @param {string[]} lines @param {(line: string) => boolean} fits */
function taken(lines, fits) {
  const end = lines.findIndex((line) => !fits(line));
  return lines.splice(0, end < 0 ? lines.length : end);
}

/** @param {string[]} lines */
function fence(lines) {
  const code = taken(lines, (line) => !/^\s*```/.test(line));
  lines.shift();
  const made = element("pre", element("code", code.join("\n")));
  made.tabIndex = 0;
  return made;
}

/** @param {string[]} lines each fits ITEM */
function list(lines) {
  const items = lines.map((line) => element("li", ...inline(ITEM.exec(line)?.[3] ?? "")));
  const first = ITEM.exec(lines[0])?.[2];
  return first === undefined ? element("ul", ...items) : Object.assign(element("ol", ...items), { start: Number(first) });
}

/** @param {string} text @returns {(Node | string)[]} */
function inline(text, depth = 0) {
  /** @type {(Node | string)[]} */
  const parts = [];
  for (let rest = text; rest; ) {
    const found = depth < 4 ? INLINE.exec(rest) : null;
    if (!found) return [...parts, rest];
    parts.push(rest.slice(0, found.index), marked(found, depth + 1));
    rest = rest.slice(found.index + found[0].length);
  }
  return parts;
}

/** @param {RegExpExecArray} found what INLINE finds @param {number} depth @returns {Node | string} */
function marked([whole, , code, bold, italic, label, address, bare], depth) {
  if (code !== undefined) return element("code", code);
  if (bold !== undefined) return element("strong", ...inline(bold, depth));
  if (italic !== undefined) return element("em", ...inline(italic, depth));
  const target = address ?? bare;
  if (!LINK.test(target) || whole.startsWith("!")) return whole;
  const link = element("a", label ?? bare);
  return Object.assign(link, { href: target, target: "_blank", rel: "noopener noreferrer nofollow" });
}

/** @template {keyof HTMLElementTagNameMap} T @param {T} name @param {...(Node | string)} children @returns {HTMLElementTagNameMap[T]} */
function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}
