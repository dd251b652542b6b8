// The look of the chat, as a sheet that is constructed: the host page's content security policy needs no exception.

const COLOUR = /^#[0-9a-f]{6}$/;
const DEFAULT_COLOUR = "#0f766e";

/** The sheet of a chat in this colour. @param {string} colour as #rrggbb; another text means the default */
export function sheet(colour) {
  const accent = COLOUR.test(colour) ? colour : DEFAULT_COLOUR;
  const constructed = new CSSStyleSheet();
  constructed.replaceSync(`:host { --accent: ${accent}; --on-accent: ${chooseTextColour(colour)}; }${CSS}`);
  return constructed;
}

/** Black or white, whichever is easier to read on the colour (WCAG 2: relative luminance). @param {string} colour */
function chooseTextColour(colour) {
  const [red, green, blue] = [1, 3, 5].map((place) => linearize(parseInt(colour.slice(place, place + 2), 16) / 255));
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return luminance > 0.179 ? "#000" : "#fff";
}

/** How much light a part of a colour gives. @param {number} part from 0 to 1, as screens encode it */
function linearize(part) {
  if (part <= 0.04045) return part / 12.92;
  return ((part + 0.055) / 1.055) ** 2.4;
}

const DARK = "--back: #18211f; --raised: #24302d; --ink: #eef3f1; --soft: #a9b8b3; --line: #5f716b; --link: #7fd8c8; --bad: #ffb4a9;";
const CSS = `
:host { --back: #fff; --raised: #f1f5f4; --ink: #15211e; --soft: #51625d; --line: #80908b; --link: #0b5e55; --bad: #a3201a;
  all: initial; position: fixed; inset: auto 1rem 1rem auto; z-index: 2147483000; color-scheme: light;
  font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); }
:host([data-theme="dark"]) { ${DARK} color-scheme: dark; }
@media (prefers-color-scheme: dark) { :host(:not([data-theme="light"])) { ${DARK} color-scheme: dark; } }
*, ::before { box-sizing: border-box; }
[hidden] { display: none !important; }
button, textarea { font: inherit; color: inherit; }
button { cursor: pointer; border: 1px solid transparent; border-radius: .6rem; background: none; min-height: 2.75rem; padding: .3rem .8rem; }
button:disabled { opacity: .55; cursor: default; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.open { display: grid; place-items: center; width: 3.5rem; height: 3.5rem; padding: 0; border-radius: 50%; background: var(--accent);
  color: var(--on-accent); box-shadow: 0 .25rem 1rem #0005; margin-left: auto; }
svg { width: 1.6rem; height: 1.6rem; fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round; }
.panel { display: flex; flex-direction: column; width: min(24rem, calc(100vw - 2rem)); height: min(38rem, calc(100dvh - 2rem));
  background: var(--back); border: 1px solid var(--line); border-radius: 1rem; overflow: hidden; box-shadow: 0 .5rem 2.5rem #0006; }
header { display: flex; align-items: center; gap: .25rem; padding: .5rem .5rem .5rem 1rem; background: var(--accent); color: var(--on-accent); }
header button { padding: .3rem .6rem; } header svg { width: 1.25rem; height: 1.25rem; display: block; }
header :focus-visible { outline-color: currentColor; outline-offset: -3px; }
h1 { flex: 1; margin: 0; font-size: 1.05rem; line-height: 1.3; overflow-wrap: anywhere; }
.log { flex: 1; overflow-y: auto; overscroll-behavior: contain; padding: 1rem; display: flex; flex-direction: column; gap: .75rem; }
.say { max-width: 88%; padding: .5rem .8rem; border-radius: .9rem; background: var(--raised); overflow-wrap: anywhere; align-self: flex-start; }
.say.user { align-self: flex-end; background: var(--accent); color: var(--on-accent); white-space: pre-wrap; }
.say > :first-child, .say > .sr + * { margin-top: 0; } .say > :last-child { margin-bottom: 0; }
.say p, .say ul, .say ol, .say pre, .say blockquote { margin: .5em 0; } .say ul, .say ol { padding-left: 1.4em; }
.say pre { overflow-x: auto; padding: .5rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--back); }
.say code { font: .9em ui-monospace, monospace; } .say a { color: var(--link); }
.say blockquote { border-left: 3px solid var(--line); padding-left: .7rem; margin-left: 0; }
.state { color: var(--soft); font-size: .9rem; min-height: 0; padding: 0 1rem .4rem; } .state:empty { padding: 0; }
.state.busy::after { content: "…"; }
.fault { align-self: stretch; color: var(--bad); border: 1px solid currentColor; border-radius: .6rem; padding: .5rem .8rem; }
.fault button, .asks button { border-color: var(--line); background: var(--back); color: var(--ink); }
.asks { display: flex; flex-direction: column; align-items: flex-start; gap: .4rem; } .asks button { text-align: left; }
form { display: flex; gap: .5rem; align-items: flex-end; padding: .75rem; border-top: 1px solid var(--line); }
textarea { flex: 1; min-width: 0; resize: none; max-height: 9rem; min-height: 2.75rem; field-sizing: content; padding: .55rem .7rem; background: var(--back);
  border: 1px solid var(--line); border-radius: .6rem; }
textarea::placeholder { color: var(--soft); opacity: 1; }
.send, .stop { background: var(--accent); color: var(--on-accent); } .sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@media (max-width: 30rem) {
  :host([data-shown]) { inset: 0; }
  .panel { width: 100vw; height: 100dvh; border: 0; border-radius: 0; }
}
:host([data-page]) { position: static; display: block; }
:host([data-page]) .panel { width: min(48rem, 100vw); height: 100dvh; margin: 0 auto; border-radius: 0; border-width: 0 1px; box-shadow: none; }
@media (prefers-reduced-motion: no-preference) { .state.busy { animation: fade 1.4s ease-in-out infinite alternate; } @keyframes fade { from { opacity: .6; } } }
`;
