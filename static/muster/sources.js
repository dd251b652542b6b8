// The sources of an answer: the places of documents that a run searched or read, numbered, each once.
import { make } from "./page.js";
import { gettext } from "./texts.js";

const PAGE = /^(?:\/[\w.~-]+)*\/collections\/[a-z0-9-]+\/documents\/[0-9a-f-]{36}\/\?at=\d+$/;

export class Sources {
  constructor() {
    this.list = make("ol");
    this.count = make("span", { className: "soft" });
    this.element = make("details", { className: "small sources" }, make("summary", {}, gettext("Sources"), " ", this.count), this.list);
    this.known = new Set();
  }

  /** @param {string} kind of the tool: what other tools return is no source @param {any} result */
  add(kind, result) {
    if (kind !== "knowledge") return;
    for (const { url, title } of Array.isArray(result?.results) ? result.results : [result ?? {}]) {
      if (typeof url !== "string" || !PAGE.test(url) || this.known.has(url)) continue;
      this.known.add(url);
      this.count.textContent = String(this.known.size);
      this.list.append(make("li", {}, make("a", { href: url, textContent: String(title ?? url) })));
    }
  }

  get isEmpty() { return this.known.size === 0; }
}
