// A chain is published with what changed, archived and restored.
import { showChanges } from "../comparison.js";
import { api, make, tell } from "../page.js";
import { gettext } from "../texts.js";
import { resolveClash } from "./clash.js";

/** @typedef {import("./editor.js").Editor} Editor */

/** Saves, checks, and asks with what differs from the live version. @param {Editor} editor @param {HTMLDialogElement} dialog */
export async function askToPublish(editor, dialog) {
  try {
    const isSaved = editor.isChanged() ? await editor.save() : await editor.check().then(() => true);
    if (!isSaved) return;
    const [problem] = editor.problems;
    if (problem) {
      tell(gettext("Not published. %(problem)s", { problem: problem.message }));
      if (problem.step) editor.select(problem.step);
      return;
    }
    const place = dialog.querySelector("[data-difference]");
    place?.replaceChildren(await describeDifference(editor));
    dialog.showModal();
  } catch (error) {
    editor.complain(/** @type {any} */ (error), gettext("Not published."));
  }
}

/** @param {Editor} editor */
async function describeDifference(editor) {
  const live = editor.row.base.published_version;
  if (!live) return make("p", { className: "soft", textContent: gettext("This is the first version.") });
  const { changes } = await api(`${editor.path}/diff?from=${live}&to=draft`);
  return showChanges(changes, editor.fields.nameOf);
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
    if (problem.status !== 412) {
      editor.complain(problem, gettext("Not published."));
      return;
    }
    await resolveClash(editor, clash);
    tell(gettext("Not published: somebody else changed the chain meanwhile."));
  }
}

/** @param {Editor} editor */
export async function archive(editor) {
  const enabled = !editor.row.base.enabled;
  const question = gettext("Archive this chain? It cannot be started until it is restored. Its runs are kept.");
  if (!enabled && !confirm(question)) return;
  try {
    await editor.row.save({ enabled });
    location.reload();
  } catch (error) {
    editor.complain(/** @type {any} */ (error), gettext("Not changed."));
  }
}
