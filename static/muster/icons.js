// Icons of the page's own file, and buttons that are an icon with words for screen readers.
import { copy, make } from "./page.js";

const SVG = "http://www.w3.org/2000/svg";
// The pages name the file with its address: the menu has icons of it.
const FILE = document.querySelector("#nav .icon use")?.getAttribute("href")?.split("#")[0] ?? "";

/** @param {string} name of a symbol in icons.svg */
export function icon(name) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("class", "icon");
  picture.setAttribute("viewBox", "0 0 20 20");
  picture.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `${FILE}#${name}`);
  picture.append(use);
  return picture;
}

/** @param {string} name of its icon @param {string} words @param {(event: Event) => unknown} onclick */
export function iconButton(name, words, onclick) {
  return make("button", { type: "button", className: "quiet icon-button", title: words, ariaLabel: words, onclick }, icon(name));
}

/** @param {string} words what the button copies @param {() => string} text */
export function copyButton(words, text) {
  const button = iconButton("copy", words, () => copy(text(), button));
  const done = icon("done");
  done.classList.add("when-done");
  button.append(done);
  return button;
}
