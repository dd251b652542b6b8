// A shared conversation: its answers are Markdown.
import { renderMarkdown } from "./markdown.js";

for (const one of document.querySelectorAll(".say.assistant")) one.replaceChildren(renderMarkdown(one.textContent ?? ""));
