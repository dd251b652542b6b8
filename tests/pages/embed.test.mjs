// The words of the embedded chat, in Node.
import assert from "node:assert/strict";
import { test } from "node:test";
import { texts } from "../../static/muster/embed/texts.js";

test("the chat speaks the language of the page, and an attribute replaces a word", () => {
  assert.equal(texts({}, "de-AT").send, "Senden");
  assert.equal(texts({}, "").send, "Send");
  assert.equal(texts({}, "fr").send, "Send");
  assert.deepEqual(Object.keys(texts({}, "de")), Object.keys(texts({}, "en")));
  assert.equal(texts({ textSend: "Los" }, "de").send, "Los");
});
