// A thumb and a note on a run's answer, kept on the run.
import { iconButton } from "./icons.js";
import { api, make, tell } from "./page.js";
import { gettext } from "./texts.js";

/**
 * @param {string} run
 * @param {{rating: string, note: string} | null} [given] what is stored
 */
export function feedbackLine(run, given = null) {
  let rating = given?.rating ?? "";
  const line = make("span", { className: "feedback row", role: "group", ariaLabel: gettext("Your rating of this answer") });
  const note = make("input", { value: given?.note ?? "", maxLength: 1000, placeholder: gettext("Why? (kept with the run)"), ariaLabel: gettext("Note on the rating"), hidden: !rating });
  const save = make("button", { type: "button", className: "quiet small", textContent: gettext("Save note"), hidden: true });
  const path = `runs/${run}/feedback`;

  const thumbs = [["up", "good", gettext("Good")], ["down", "bad", gettext("Bad")]].map(([value, picture, words]) => {
    const thumb = iconButton(picture, words, () => rate(rating === value ? "" : value));
    thumb.dataset.rating = value;
    return thumb;
  });

  function draw() {
    for (const thumb of thumbs) thumb.setAttribute("aria-pressed", String(thumb.dataset.rating === rating));
    note.hidden = !rating;
    if (!rating) save.hidden = true;
  }

  /** @param {string} value */
  async function rate(value) {
    try {
      await (value ? api(path, { method: "PUT", body: { rating: value, note: note.value } }) : api(path, { method: "DELETE" }));
      rating = value;
      draw();
    } catch (error) { tell(/** @type {Error} */ (error).message); }
  }

  note.addEventListener("input", () => { save.hidden = false; });
  note.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); save.click(); } });
  save.addEventListener("click", async () => { await rate(rating); save.hidden = true; });
  line.append(...thumbs, note, save);
  draw();
  return line;
}
