// The parser that static/muster/markdown.js is built on.
import MarkdownIt from "markdown-it";

export { MarkdownIt };
