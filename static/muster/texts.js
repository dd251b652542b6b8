// Texts of scripts in the person's language. The catalog is a script of its own, which pages in English do not load.

/** @type {any} */
const catalog = globalThis;

/**
 * A text in the person's language.
 * @param {string} text @param {Record<string, string | number>} [values] for places such as %(name)s @returns {string}
 */
export function gettext(text, values = {}) {
  const translated = catalog.gettext ? catalog.gettext(text) : text;
  return fillPlaces(translated, values);
}

/**
 * A text in the form that its number wants.
 * @param {string} one @param {string} many @param {number} number for %(number)s @returns {string}
 */
export function ngettext(one, many, number) {
  if (catalog.ngettext) return fillPlaces(catalog.ngettext(one, many, number), { number });
  return fillPlaces(number === 1 ? one : many, { number });
}

/** @param {string} text @param {Record<string, string | number>} values */
function fillPlaces(text, values) {
  return text.replace(/%\((\w+)\)s/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

const WORDS = /** @type {Record<string, string>} */ ({
  agent: gettext("agent"),
  chain: gettext("chain"),
  tool: gettext("tool"),
  router: gettext("router"),
  step: gettext("step"),
  function: gettext("function"),
  schedule: gettext("schedule"),
  trigger: gettext("trigger"),
  connector: gettext("connector"),
  device: gettext("device"),
  message: gettext("message"),
  draft: gettext("draft"),
  event: gettext("event"),
  manual: gettext("manual"),
  webhook: gettext("webhook"),
  queued: gettext("queued"),
  running: gettext("running"),
  waiting: gettext("waiting"),
  ready: gettext("ready"),
  succeeded: gettext("succeeded"),
  partial: gettext("partial"),
  failed: gettext("failed"),
  cancelled: gettext("cancelled"),
  expired: gettext("expired"),
  skipped: gettext("skipped"),
  denied: gettext("denied"),
  approved: gettext("approved"),
  rejected: gettext("rejected"),
  refused: gettext("refused"),
  pending: gettext("pending"),
  done: gettext("done"),
  open: gettext("open"),
  started: gettext("started"),
  missed: gettext("missed"),
  due: gettext("due"),
  known: gettext("known"),
  new: gettext("new"),
  changed: gettext("changed"),
  ok: gettext("ok"),
  error: gettext("error"),
  timeout: gettext("timeout"),
  unknown: gettext("unknown"),
  read: gettext("read"),
  read_out: gettext("read out"),
  pure: gettext("pure"),
  idempotent: gettext("idempotent"),
  write: gettext("write"),
  sends_out: gettext("sends out"),
  destructive: gettext("destructive"),
  closed: gettext("closed"),
  child: gettext("another run"),
  approval: gettext("an approval"),
  input: gettext("an answer"),
  external: gettext("another program"),
});

/** A state, a kind or an effect as people read it. @param {string} name as the API gives it @returns {string} */
export function word(name) {
  return WORDS[name] ?? name.replaceAll("_", " ");
}
