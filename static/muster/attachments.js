// Files of the next message: chosen, dropped or pasted. Each is uploaded at once; a large picture is made smaller first.
import { attached, preview } from "./attached.js";
import { api, make, tell } from "./page.js";
import { gettext } from "./texts.js";

/** @typedef {import("./attached.js").Attached} Attached */
const PICTURES = ["image/png", "image/jpeg", "image/webp"];
const PICTURE_BYTES = 750_000; // models take no larger ones
const LONGEST_SIDE = 1600;
const MOST = 10;

/** A message with files, as content parts. @param {string} message @param {Attached[]} files */
export function named(message, files) {
  const words = message ? [{ type: "text", text: message }] : [];
  return [...words, ...files.map(({ id }) => ({ type: "file", file: id }))];
}

export class Attachments {
  /** @param {HTMLFormElement} composer @param {HTMLTextAreaElement} text */
  constructor(composer, text) {
    this.list = /** @type {HTMLElement} */ (composer.querySelector("[data-attached]"));
    this.input = /** @type {HTMLInputElement} */ (composer.querySelector("#attach"));
    this.limit = Number(this.input.dataset.uploadBytes);
    /** @type {Attached[]} */
    this.files = [];
    this.uploads = 0;
    this.input.addEventListener("change", () => { this.addAll([...(this.input.files ?? [])]); this.input.value = ""; });
    text.addEventListener("paste", (event) => {
      const files = event.clipboardData && !isText(event.clipboardData) ? [...event.clipboardData.files] : [];
      if (files.length) { event.preventDefault(); this.addAll(files); }
    });
    this.takeDropped(/** @type {HTMLElement} */ (composer.querySelector("[data-drop]")));
  }

  /** Files are dropped anywhere: beside the composer the browser would open the file and leave the page. @param {HTMLElement} sign */
  takeDropped(sign) {
    document.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      sign.hidden = false;
    });
    document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) sign.hidden = true; });
    document.addEventListener("drop", (event) => {
      sign.hidden = true;
      const handed = [...(event.dataTransfer?.items ?? [])].filter((one) => one.kind === "file");
      if (handed.length) event.preventDefault();
      const files = handed.filter((one) => !one.webkitGetAsEntry?.()?.isDirectory).map((one) => one.getAsFile()).filter((one) => one !== null);
      if (files.length < handed.length) tell(gettext("A folder cannot be attached: choose the files in it."));
      this.addAll(files);
    });
  }

  get isBusy() { return this.uploads > 0; }

  /** The files of the message that is sent now; the list is empty afterwards. */
  take() {
    const taken = this.files;
    this.files = [];
    this.list.replaceChildren();
    return taken;
  }

  /** @param {File[]} files */
  addAll(files) {
    const free = MOST - this.list.children.length;
    for (const file of files.slice(0, free)) this.add(file);
    if (files.length > free) tell(gettext("A message can have %(most)s files.", { most: MOST }));
  }

  /** @param {File} file */
  async add(file) {
    const item = this.listed(file.name);
    item.ariaBusy = "true";
    this.uploads += 1;
    try {
      const content = await smaller(file);
      if (content.size > this.limit) throw new Error(gettext("%(name)s is too large: %(size)s kB are allowed.", { name: file.name, size: Math.floor(this.limit / 1024) }));
      this.put(attached(await api("files/", { method: "POST", body: form(content, file.name) })), item);
      item.removeAttribute("aria-busy");
    } catch (error) {
      item.remove();
      tell(/** @type {Error} */ (error).message);
    }
    this.uploads -= 1;
  }

  /** A line of the list, with its button. @param {string} name */
  listed(name) {
    const remove = make("button", { type: "button", className: "quiet small", textContent: "×", ariaLabel: gettext("Remove %(name)s", { name }) });
    const item = make("li", {}, make("span", { textContent: name }), remove);
    this.list.append(item);
    return item;
  }

  /** A file that the server has. @param {Attached} file @param {HTMLElement} [item] */
  put(file, item = this.listed(file.name)) {
    this.files.push(file);
    if (file.isPicture) item.prepend(Object.assign(preview(file), { alt: "" }));
    item.querySelector("button")?.addEventListener("click", () => { this.files = this.files.filter((one) => one !== file); item.remove(); });
  }
}

/** Cells of a table and words of an office program come with a picture of themselves. @param {DataTransfer} pasted */
function isText(pasted) {
  return pasted.types.includes("text/plain") && pasted.types.includes("text/html");
}

/** @param {Blob} content @param {string} name */
function form(content, name) {
  const data = new FormData();
  data.append("file", content, name);
  data.append("name", name);
  data.append("media_type", content.type || "application/octet-stream");
  return data;
}

/** A picture that fits; other files as they are. @param {File} file @returns {Promise<Blob>} */
async function smaller(file) {
  if (file.size <= PICTURE_BYTES || !PICTURES.includes(file.type)) return file;
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST_SIDE / Math.max(picture.width, picture.height));
  const canvas = Object.assign(document.createElement("canvas"), { width: Math.round(picture.width * scale), height: Math.round(picture.height * scale) });
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob((made) => done(made ?? file), "image/jpeg", 0.85));
}
