// The sources of an answer: the places of documents that a run searched or read, numbered, each once.
import { make } from "./page.js";
import { gettext } from "./texts.js";

// Only pages of this site become links: a result may hold text that a stranger wrote.
const PAGE = /^(?:\/[\w.~-]+)*\/collections\/[a-z0-9-]+\/documents\/[0-9a-f-]{36}\/\?at=\d+$/;

export class Sources {
  constructor() {
    this.list = make("ol");
    this.urls = new Set();
    this.count = make("span", { className: "soft" });
    const summary = make("summary", {}, gettext("Sources"), " ", this.count);
    this.element = make("details", { className: "small sources" }, summary, this.list);
  }

  /** @param {string} kind of the tool: what other tools return is no source @param {any} result */
  add(kind, result) {
    if (kind !== "knowledge") return;
    // A search returns many places, reading a document one.
    const places = Array.isArray(result?.results) ? result.results : [result ?? {}];
    for (const { url, title } of places) {
      if (typeof url !== "string" || !PAGE.test(url) || this.urls.has(url)) continue;
      this.urls.add(url);
      this.count.textContent = String(this.urls.size);
      this.list.append(make("li", {}, make("a", { href: url, textContent: String(title ?? url) })));
    }
  }

  get isEmpty() {
    return this.urls.size === 0;
  }
}
