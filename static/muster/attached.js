// The files of a message: pictures as small previews that open, other files as links. The server draws the same list.
import { make } from "./page.js";
import { sitePath } from "./site.js";
import { gettext } from "./texts.js";

/** @typedef {{id: string, name: string, isPicture?: boolean}} Attached */
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** A file as the API shows it. @param {{id: string, name: string, media_type: string}} stored @returns {Attached} */
export function attached({ id, name, media_type: type }) {
  return { id, name, isPicture: PICTURES.includes(type) };
}

/** @param {Attached} file */
export const preview = ({ id, name }) => make("img", { src: sitePath(`/api/v1/files/${id}/preview`), alt: name });

/** @param {Attached[]} files */
export function sentFiles(files) {
  return make("ul", { className: "sent", ariaLabel: gettext("Attached files") }, ...files.map((file) => {
    const link = file.isPicture
      ? make("a", { href: sitePath(`/api/v1/files/${file.id}/preview`), target: "_blank", rel: "noopener", title: gettext("Open the picture") }, preview(file))
      : make("a", { href: sitePath(`/api/v1/files/${file.id}/content`), download: file.name, textContent: file.name });
    const item = make("li", {}, link);
    Object.assign(item.dataset, { file: file.id, name: file.name }, file.isPicture ? { picture: "" } : {});
    return item;
  }));
}

/** The files of a message on the page. @param {Element} said @returns {Attached[]} */
export function filesOf(said) {
  const items = /** @type {NodeListOf<HTMLElement>} */ (said.querySelectorAll("[data-file]"));
  return [...items].map(({ dataset }) => ({ id: dataset.file ?? "", name: dataset.name ?? "", isPicture: dataset.picture !== undefined }));
}
