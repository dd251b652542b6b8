// Asks before a page with unsaved changes is left, reloaded or closed. Used by itself for <form data-guard>.

/** @type {Set<() => boolean>} */
const watched = new Set();

/**
 * @param {() => boolean} isChanged whether there is something that leaving would lose
 * @returns {() => void} stops asking
 */
export function guard(isChanged) {
  watched.add(isChanged);
  return () => { watched.delete(isChanged); };
}

addEventListener("beforeunload", (event) => {
  if ([...watched].some((isChanged) => isChanged())) event.preventDefault();
});

/** @param {HTMLFormElement} form */
const contents = (form) => JSON.stringify([
  ...[...new FormData(form)].map(([name, value]) => [name, String(value)]),
  // the admin's pair of lists: what is chosen is marked only when the form is sent
  ...[.../** @type {NodeListOf<HTMLOptionElement>} */ (form.querySelectorAll(".selector-chosen option"))].map((one) => [one.parentElement?.id, one.value]),
]);

/** Asks while this form has other contents than it came with. @param {HTMLFormElement} form */
export function watch(form) {
  const before = form.querySelector("[aria-invalid=true]") ? "" : contents(form); // what was refused is not saved
  const stop = guard(() => contents(form) !== before);
  form.addEventListener("submit", stop);
}

for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-guard]"))) watch(form);
