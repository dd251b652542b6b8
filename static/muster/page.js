// What every page does: times in the viewer's zone, theme, menu, copy buttons, confirmations.

const WITH_DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const AGO = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

export function localise(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = EXACT.format(at);
    time.textContent = time.dataset.ago === undefined ? WITH_DATE.format(at) : ago(at);
  }
}

export function ago(at, now = Date.now()) {
  const seconds = (at - now) / 1000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? UNITS.at(-1);
  return AGO.format(Math.round(seconds / size), unit);
}

// US dollars, as runs/figures/money.py writes them.
export function money(cost) {
  const amount = Number(cost || 0);
  if (amount >= 0.01) return `$${amount.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  if (amount >= 0.000001) return `$${Number(amount.toPrecision(2))}`;
  return amount ? "<$0.000001" : "$0";
}

export function csrf() {
  return document.cookie.match(/(?:^|; )csrftoken=([^;]+)/)?.[1] ?? "";
}

// The API as the signed-in person. Resolves to JSON; rejects with an Error that says what the API said.
export async function api(path, { method = "GET", body, headers = {}, signal } = {}) {
  const response = await fetch(`/api/v1/${path}`, {
    method,
    signal,
    headers: { Accept: "application/json", "Content-Type": "application/json", "X-CSRFToken": csrf(), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const answer = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw problem(answer, response);
  return answer;
}

export function problem(answer, response) {
  const told = answer?.error ?? {};
  const details = (told.details ?? []).map((one) => [one.field, one.message].filter(Boolean).join(": "));
  const text = [told.message || `The server answered ${response.status}.`, ...details, told.hint].filter(Boolean).join(" ");
  return Object.assign(new Error(text), { status: response.status, code: told.code, details: told.details ?? [] });
}

export function tell(text, kind = "error") {
  const note = Object.assign(document.createElement("p"), { className: `note ${kind}`, textContent: text });
  document.querySelector("[data-messages]")?.replaceChildren(note);
  note.scrollIntoView({ block: "nearest" });
}

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// What the server should know before it draws the next page; no script has to run before the first paint.
function keep(name, value) {
  document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=lax`;
}

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  keep("theme", next);
}

document.addEventListener("click", async (event) => {
  const target = event.target instanceof Element ? event.target : null;
  if (target?.closest("[data-theme-toggle]")) toggleTheme();
  const copy = target?.closest("[data-copy]");
  if (copy) {
    await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy)?.textContent ?? copy.dataset.copy);
    const before = copy.textContent;
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = before; }, 1200);
  }
});
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm ?? event.submitter?.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea, select, [contenteditable]")) {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  }
});
// The server counts days in this zone from the next page on.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) keep("zone", zone);
localise();
