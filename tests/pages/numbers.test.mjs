// Numbers in the language of the page, in Node: `node --test tests/pages/`.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

const of = async (language) => {
  globalThis.document = { documentElement: { lang: language } };
  return import(`../../static/muster/numbers.js?${language}`);
};

test("numbers and amounts are written as in the language of the page", async () => {
  const [english, german] = [await of("en"), await of("de")];
  assert.deepEqual([1234567, 0.5].map((one) => english.number(one)), ["1,234,567", "0.5"]);
  assert.deepEqual([1234567, 0.5].map((one) => german.number(one)), ["1.234.567", "0,5"]);
  assert.deepEqual([english.fixed(1.25, 1), german.fixed(2, 2)], ["1.3", "2,00"]);
  const amounts = [0, "1234.5", 0.0042, 0.0000001];
  assert.deepEqual(amounts.map(english.money), ["$0", "$1,234.50", "$0.0042", "<$0.000001"]);
  assert.deepEqual(amounts.map(german.money), ["0\u00a0$", "1.234,50\u00a0$", "0,0042\u00a0$", "<0,000001\u00a0$"]);
});

test("no script writes numbers in one language for everybody", () => {
  const folder = new URL("../../static/muster/", import.meta.url);
  const scripts = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".js") && !/^(vendor|editor)/.test(name));
  const fixed = scripts.filter((name) => /toLocaleString\(|\.toFixed\(|Intl\.\w+\("/.test(readFileSync(new URL(name, folder), "utf8")));
  assert.deepEqual(fixed, []);
});

test("large integers keep their digits", async (context) => {
  if (!("rawJSON" in JSON)) return context.skip("this Node.js has no JSON.rawJSON");
  const { parseExactly } = await of("en");
  const text = '{"a":1180591620717411303424,"b":[1,2.5,-12345678901234567890],"c":"12345678901234567890"}';
  const value = parseExactly(text);
  assert.equal(JSON.stringify(value), text);
  assert.equal(`${value.a}`, "1180591620717411303424");
});
