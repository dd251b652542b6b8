// Skills: SKILL.md is Markdown, and a folder is sent with the paths of its files.
import { renderMarkdown } from "./markdown.js";

for (const one of document.querySelectorAll("[data-markdown]")) one.replaceChildren(renderMarkdown(one.textContent ?? ""));

for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-import]"))) {
  const chosen = /** @type {HTMLInputElement | null} */ (form.querySelector("input[webkitdirectory]"));
  const paths = /** @type {HTMLInputElement | null} */ (form.querySelector("input[name=paths]"));
  if (!chosen || !paths) continue;
  chosen.addEventListener("change", () => {
    paths.value = JSON.stringify([...(chosen.files ?? [])].map((file) => file.webkitRelativePath));
  });
}
