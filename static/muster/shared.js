// A conversation that is only read: its answers are Markdown.
import { renderMarkdown } from "./markdown.js";

for (const one of document.querySelectorAll("[data-markdown]")) one.replaceChildren(renderMarkdown(one.textContent ?? ""));
