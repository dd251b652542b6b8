// The text of a reply as it arrives. Offsets count code points, as the server does; JavaScript counts UTF-16.

/** @param {string} text */
const codePoints = (text) => {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
};

export class TextSoFar {
  constructor() { this.text = ""; this.length = 0; }

  /**
   * Puts a piece at its place; what was after it goes.
   * @param {number} offset in code points
   * @param {string} piece
   * @returns {string} the whole text
   */
  write(offset, piece) {
    if (offset < this.length) this.set([...this.text].slice(0, offset).join(""));
    this.text += piece;
    this.length += codePoints(piece);
    return this.text;
  }

  /** @param {string} text */
  set(text) { this.text = text; this.length = codePoints(text); }
}
