// A chain is published with what changed, archived and restored.
import { api, make, tell } from "../page.js";
import { meet } from "./clash.js";
import { difference } from "../agent/versions.js";
import { gettext } from "../texts.js";

/** @typedef {import("./editor.js").Editor} Editor */

/** Saves, checks, and asks with what differs from the live version. @param {Editor} editor @param {HTMLDialogElement} dialog */
export async function askToPublish(editor, dialog) {
  try {
    if (editor.isChanged()) { if (!(await editor.save())) return; } else await editor.check();
    const [problem] = editor.problems;
    if (problem) { tell(gettext("Not published. %(problem)s", { problem: problem.message })); if (problem.step) editor.select(problem.step); return; }
    const live = editor.row.base.published_version;
    const what = live ? difference((await api(`${editor.path}/diff?from=${live}&to=draft`)).text) : make("p", { className: "soft", textContent: gettext("This is the first version.") });
    dialog.querySelector("[data-difference]")?.replaceChildren(what);
    dialog.showModal();
  } catch (error) { editor.complain(/** @type {any} */ (error), gettext("Not published.")); }
}

/** What the person has seen, and nothing that was saved since. @param {Editor} editor @param {string} note @param {HTMLElement} clash */
export async function publish(editor, note, clash) {
  try {
    const { version } = await api(`${editor.path}/publish`, { method: "POST", body: { note }, headers: { "If-Match": editor.row.etag } });
    await editor.row.load();
    tell(gettext("Version %(version)s is live.", { version }), "success");
    for (const option of document.querySelectorAll("[data-try=with] option[hidden]")) option.removeAttribute("hidden");
    editor.showState();
    editor.versions.show();
  } catch (error) {
    const problem = /** @type {any} */ (error);
    if (problem.status !== 412) { editor.complain(problem, gettext("Not published.")); return; }
    await meet(editor, clash);
    tell(gettext("Not published: somebody else changed the chain meanwhile."));
  }
}

/** @param {Editor} editor */
export async function archive(editor) {
  const enabled = !editor.row.base.enabled;
  if (!enabled && !confirm(gettext("Archive this chain? It cannot be started until it is restored. Its runs are kept."))) return;
  try { await editor.row.save({ enabled }); location.reload(); } catch (error) { editor.complain(/** @type {any} */ (error), gettext("Not changed.")); }
}
