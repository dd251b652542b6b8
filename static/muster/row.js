// A row of the API that a page edits: read with its ETag, saved with If-Match, so that nobody's change is overwritten.
import { csrf, problem } from "./page.js";
import { sitePath } from "./site.js";

/** @typedef {Record<string, any>} Values */

// Every save changes these, and nobody's work is lost by it.
const BOOKKEEPING = ["updated_at", "published_version"];

export class Row {
  /** @param {string} path below /api/v1/ */
  constructor(path) {
    this.path = path;
    this.etag = "";
    /** @type {Values} what the server has */
    this.base = {};
  }

  async load() {
    return this.ask("GET");
  }

  /** @param {Values} changes Rejects with status 412 if the row was changed by somebody else since it was read. */
  async save(changes) {
    return this.ask("PATCH", changes);
  }

  /** @param {string} method @param {Values} [body] */
  async ask(method, body) {
    /** @type {Record<string, string>} */
    const headers = { Accept: "application/json", "Content-Type": "application/json", "X-CSRFToken": csrf() };
    if (body) headers["If-Match"] = this.etag;
    const path = sitePath(`/api/v1/${this.path}`);
    const response = await fetch(path, { method, cache: "no-store", headers, body: body && JSON.stringify(body) });
    const answer = await response.json().catch(() => null);
    if (!response.ok) throw problem(answer, response);
    this.etag = response.headers.get("ETag") ?? "";
    this.base = answer;
    return answer;
  }
}

/** Whether two JSON values are equal; a missing one is null. @param {any} one @param {any} other */
export const same = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);

/**
 * What somebody else changed while this person was editing.
 * @param {Values} before what this person read
 * @param {Values} theirs what the server has now
 * @param {Values} mine the changed fields
 * @returns {{adopted: string[], both: string[]}} fields that only they changed, and those that both changed, to
 *   different values
 */
export function collisions(before, theirs, mine) {
  const names = Object.keys(theirs).filter((name) => !BOOKKEEPING.includes(name));
  const changed = names.filter((name) => !same(before[name], theirs[name]));
  const adopted = changed.filter((name) => !(name in mine));
  const both = changed.filter((name) => name in mine && !same(mine[name], theirs[name]));
  return { adopted, both };
}
