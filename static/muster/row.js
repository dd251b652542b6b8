// A row of the API that a page edits: read with its ETag, saved with If-Match, so that nobody's change is overwritten.
import { csrf, problem } from "./page.js";
import { sitePath } from "./site.js";

/** @typedef {Record<string, any>} Values */

export class Row {
  /** @param {string} path below /api/v1/ */
  constructor(path) {
    this.path = path;
    this.etag = "";
    /** @type {Values} what the server has */
    this.base = {};
  }

  async load() { return this.ask("GET"); }

  /** @param {Values} changes Rejects with status 412 if the row was changed by somebody else since it was read. */
  async save(changes) { return this.ask("PATCH", changes); }

  /** @param {string} method @param {Values} [body] */
  async ask(method, body) {
    const response = await fetch(sitePath(`/api/v1/${this.path}`), {
      method,
      cache: "no-store",
      headers: { Accept: "application/json", "Content-Type": "application/json", "X-CSRFToken": csrf(), ...(body ? { "If-Match": this.etag } : {}) },
      body: body && JSON.stringify(body),
    });
    const answer = await response.json().catch(() => null);
    if (!response.ok) throw problem(answer, response);
    this.etag = response.headers.get("ETag") ?? "";
    this.base = answer;
    return answer;
  }
}

/** @param {any} one @param {any} other */
export const same = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);

/**
 * What somebody else changed while this person was editing.
 * @param {Values} before what this person read @param {Values} theirs what the server has now @param {Values} mine the changed fields
 * @returns {{adopted: string[], both: string[]}} fields that only they changed, and those that both changed to different values
 */
export function collisions(before, theirs, mine) {
  const changed = Object.keys(theirs).filter((name) => !["updated_at", "published_version"].includes(name) && !same(before[name], theirs[name]));
  return { adopted: changed.filter((name) => !(name in mine)), both: changed.filter((name) => name in mine && !same(mine[name], theirs[name])) };
}
