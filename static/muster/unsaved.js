// Asks before a page with unsaved changes is left, reloaded or closed. Used by itself for <form data-guard>.

/** @type {Set<() => boolean>} what is asked before the page is left */
const watched = new Set();

/**
 * Asks before the page is left, as long as there is something to lose.
 * @param {() => boolean} isChanged whether there is something that leaving would lose
 * @returns {() => void} stops asking
 */
export function guard(isChanged) {
  watched.add(isChanged);
  return () => {
    watched.delete(isChanged);
  };
}

addEventListener("beforeunload", (event) => {
  if ([...watched].some((isChanged) => isChanged())) event.preventDefault();
});

/** All that a form holds, as one text. @param {HTMLFormElement} form */
function readContents(form) {
  const pairs = [...new FormData(form)].map(([name, value]) => [name, String(value)]);
  // The admin's pair of lists: what is chosen is marked only when the form is sent.
  const options = /** @type {NodeListOf<HTMLOptionElement>} */ (form.querySelectorAll(".selector-chosen option"));
  const chosen = [...options].map((option) => [option.parentElement?.id, option.value]);
  return JSON.stringify([...pairs, ...chosen]);
}

/** Asks while this form has other contents than it came with. @param {HTMLFormElement} form */
export function watch(form) {
  const isRefused = form.querySelector("[aria-invalid=true]") !== null;
  const before = isRefused ? "" : readContents(form); // what was refused is not saved
  const stop = guard(() => readContents(form) !== before);
  form.addEventListener("submit", stop);
}

const forms = /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-guard]"));
for (const form of forms) watch(form);
