// Skills: SKILL.md is Markdown, and a folder is sent with the paths of its files.
import { renderMarkdown } from "./markdown.js";

for (const place of document.querySelectorAll("[data-markdown]")) {
  place.replaceChildren(renderMarkdown(place.textContent ?? ""));
}

// A form sends the names of files without their folders; so their paths are sent beside them.
for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-import]"))) {
  const folder = /** @type {HTMLInputElement | null} */ (form.querySelector("input[webkitdirectory]"));
  const paths = /** @type {HTMLInputElement | null} */ (form.querySelector("input[name=paths]"));
  if (!folder || !paths) continue;
  folder.addEventListener("change", () => {
    const files = [...(folder.files ?? [])];
    paths.value = JSON.stringify(files.map((file) => file.webkitRelativePath));
  });
}
