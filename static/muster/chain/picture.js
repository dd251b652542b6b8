// The picture of a chain: drawn as SVG, moved with the mouse or the keyboard. Callbacks report what the person does in it.
import { START, kindOf, withStart } from "./draft.js";
import { SIZE, layout, middleOf, pathDown, pathOf } from "./layout.js";
import { targetInWords, tookInWords } from "./words.js";
import { gettext, ngettext, word } from "../texts.js";

/** @typedef {{status: string, total?: number, done?: number, failed?: number, ms?: number, child?: string, pinned?: boolean}} State */
/** @typedef {{selected?: string, states?: Map<string, State>, problems?: Map<string, string[]>, isEditable?: boolean, input?: any}} Shown `input`: the schema of the chain's input */

const SIGNS = /** @type {Record<string, string>} */ ({ ready: "·", running: "▶", waiting: "⏸", succeeded: "✓", partial: "◐", failed: "✗", skipped: "–", cancelled: "⊘" });
const [LEAST, MOST] = [0.25, 2];

/** @param {string} name @param {Record<string, any>} [attributes] @param {(Node | string)[]} children */
function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) element.setAttribute(key, String(value));
  }
  element.append(...children);
  return element;
}

/** @param {string} text @param {number} letters */
const short = (text, letters) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);

export class Picture {
  /** @param {HTMLElement} place @param {{select: (key: string) => void, open: (key: string) => void, connect: (from: string, to: string) => void, disconnect: (from: string, to: string) => void, add: (after: string) => void, say: (words: string) => void}} on */
  constructor(place, on) {
    this.place = place;
    this.on = on;
    this.scale = 1;
    this.view = { x: 0, y: 0 };
    // The step that is being connected.
    this.from = "";
    this.isFitted = true;
    this.isDown = false;
    /** @type {Shown} */
    this.shown = {};
    this.root = /** @type {SVGSVGElement} */ (svg("svg", { class: "chainpicture", role: "group", "aria-label": gettext("Picture of the steps") }));
    place.append(this.root);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(place);
  }

  /** @param {import("./draft.js").Draft} draft @param {Shown} shown */
  draw(draft, shown) {
    const focused = document.activeElement?.closest?.("[data-step]");
    const focusedKey = focused && this.root.contains(focused) ? focused.getAttribute("data-step") : null;
    this.draft = draft;
    this.shown = shown;
    this.isDown = this.place.clientHeight > this.place.clientWidth;
    this.made = layout(withStart(draft), this.isDown);
    const tip = svg("marker", { id: "chain-tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { class: "tip", d: "M0 0 8 4 0 8z" }));
    const edges = this.made.edges.map((edge) => this.drawEdge(edge));
    const nodes = this.inOrder().map((key) => (key === START ? this.drawStart() : this.drawNode(key)));
    this.root.replaceChildren(svg("defs", {}, tip), ...edges, ...nodes);
    if (focusedKey) this.focus(focusedKey);
    // Until the person moves it, the picture shows all steps.
    if (this.isFitted) this.fit();
    this.look();
  }

  resize() {
    // Another tab is shown.
    if (!this.place.clientWidth) return;
    const isDown = this.place.clientHeight > this.place.clientWidth;
    if (isDown !== this.isDown) this.redraw();
    else if (this.isFitted) this.fit();
    else this.look();
  }

  /** Keys as the eye reads: column by column. */
  inOrder() { return (this.made?.columns ?? []).flat(); }

  // -- drawing ----------------------------------------------------------------------------------------------------------

  /** @param {import("./layout.js").Edge} edge */
  drawEdge(edge) {
    const path = this.isDown ? pathDown(edge) : pathOf(edge);
    const hit = svg("path", { class: "hit", d: path });
    const line = svg("path", { class: "edge", d: path, "marker-end": "url(#chain-tip)" });
    const group = svg("g", { class: `link ${edge.kind}`, "aria-hidden": "true" }, hit, line);
    const isCut = edge.kind === "needs" && edge.isOwn && edge.from !== START;
    if (!isCut || !this.shown.isEditable) return group;
    const { x, y } = middleOf(edge);
    const words = gettext("Disconnect %(to)s from %(from)s", { to: edge.to, from: edge.from });
    const cut = svg("g", { class: "cut", transform: `translate(${x} ${y})` }, svg("circle", { r: 9 }), svg("path", { d: "M-3.5 -3.5 3.5 3.5M3.5 -3.5-3.5 3.5" }), svg("title", {}, words));
    cut.addEventListener("click", () => this.on.disconnect(edge.from, edge.to));
    group.append(cut);
    return group;
  }

  /** @param {string} key @param {string} kinds classes that say what it is */
  drawBox(key, kinds) {
    const { x, y } = /** @type {{x: number, y: number}} */ (this.made?.places.get(key));
    const { width, height } = SIZE;
    const isSelected = this.shown.selected === key;
    const isThere = this.shown.selected && this.made?.places.has(this.shown.selected);
    const current = isThere ? this.shown.selected : this.inOrder()[0];
    const classes = ["node", kinds, isSelected ? "selected" : "", this.from === key ? "source" : ""].filter(Boolean).join(" ");
    const box = svg("rect", { class: "box", width, height, rx: 9 });
    const stripe = svg("rect", { class: "stripe", width: 5, height: height - 16, y: 8, x: 0, rx: 2.5 });
    return svg("g", { class: classes, role: "button", tabindex: key === current ? 0 : -1, "data-step": key, "aria-pressed": isSelected, transform: `translate(${x} ${y})` }, box, stripe);
  }

  drawStart() {
    const group = this.drawBox(START, "start");
    const fields = Object.keys(this.shown.input?.properties ?? {}).join(", ") || gettext("any input");
    const title = svg("title", {}, `${gettext("Start")}: ${fields}`);
    const words = svg("g", { "aria-hidden": "true" }, svg("text", { x: 16, y: 25, class: "key" }, gettext("Start")), svg("text", { x: 16, y: 44, class: "what" }, short(fields, 26)));
    group.prepend(title);
    group.append(words);
    if (this.shown.isEditable) group.append(this.drawPort(START));
    return group;
  }

  /** @param {string} key */
  drawPort(key) {
    const { x, y } = this.portPlace();
    return svg("circle", { class: "port", cx: x, cy: y, r: 7, "data-port": key });
  }

  /** Where connections leave a step, from its upper left corner. */
  portPlace() {
    const { width, height } = SIZE;
    return this.isDown ? { x: width / 2, y: height } : { x: width, y: height / 2 };
  }

  /** @param {string} key */
  drawNode(key) {
    const step = /** @type {Record<string, any>} */ (this.draft?.steps.find((one) => one.key === key));
    const state = this.shown.states?.get(key);
    const problems = this.shown.problems?.get(key) ?? [];
    const group = this.drawBox(key, [kindOf(step), state?.status, problems.length ? "wrong" : ""].filter(Boolean).join(" "));
    const isAlone = state?.ms === undefined && !state?.total;
    const name = svg("text", { x: 16, y: 25, class: "key" }, short(key, 20));
    const what = svg("text", { x: 16, y: 44, class: "what" }, short(targetInWords(step), isAlone ? 26 : 19));
    const sign = svg("text", { x: SIZE.width - 12, y: 25, "text-anchor": "end", class: "sign" }, this.signOf(step, state, problems));
    group.prepend(svg("title", {}, this.label(step, state, problems)));
    group.append(svg("g", { "aria-hidden": "true" }, name, what, sign, ...this.drawProgress(state)));
    if (this.shown.isEditable) group.append(this.drawPort(key));
    return group;
  }

  /** @param {Record<string, any>} step @param {State | undefined} state @param {string[]} problems */
  signOf(step, state, problems) {
    if (problems.length) return "!";
    const ofRun = [state?.pinned ? "📌" : "", SIGNS[state?.status ?? ""] ?? ""].join("");
    const ofStep = [step.when ? "?" : "", step.for_each ? "⋯" : "", step.repeat_until ? "↻" : "", step.approval ? "✋" : ""];
    return ofRun || ofStep.filter(Boolean).join(" ");
  }

  /** @param {State | undefined} state */
  drawProgress(state) {
    const { width, height } = SIZE;
    const inner = width - 32;
    const took = state?.ms === undefined ? "" : tookInWords(state.ms);
    const words = state?.total ? `${state.done ?? 0}/${state.total}` : took;
    const parts = [];
    if (words) parts.push(svg("text", { x: width - 12, y: 44, "text-anchor": "end", class: "took" }, words));
    if (state?.total) {
      const done = Math.min(1, (state.done ?? 0) / state.total);
      parts.push(svg("rect", { class: "track", x: 16, y: height - 9, width: inner, height: 3 }), svg("rect", { class: "bar", x: 16, y: height - 9, width: inner * done, height: 3 }));
    }
    return parts;
  }

  /** @param {Record<string, any>} step @param {State | undefined} state @param {string[]} problems */
  label(step, state, problems) {
    const before = this.made?.edges.filter((edge) => edge.to === step.key && edge.kind === "needs").map((edge) => edge.from) ?? [];
    const needs = before.filter((key) => key !== START);
    const words = [`${step.key}: ${targetInWords(step)}`];
    words.push(needs.length ? gettext("after %(steps)s", { steps: needs.join(", ") }) : gettext("starts at once"));
    if (state) words.push(`${state.pinned ? `${gettext("output given,")} ` : ""}${word(state.status)}`);
    if (state?.total) words.push(gettext("%(done)s of %(total)s items, %(failed)s failed", { done: state.done ?? 0, total: state.total, failed: state.failed ?? 0 }));
    if (state?.ms !== undefined) words.push(gettext("took %(time)s", { time: tookInWords(state.ms) }));
    if (problems.length) words.push(ngettext("%(number)s problem", "%(number)s problems", problems.length));
    return words.join(", ");
  }

  // -- what is seen -----------------------------------------------------------------------------------------------------

  size() { return { width: Math.max(120, this.place.clientWidth), height: Math.max(120, this.place.clientHeight) }; }

  look() {
    const { width, height } = this.size();
    this.root.setAttribute("viewBox", `${this.view.x} ${this.view.y} ${width / this.scale} ${height / this.scale}`);
  }

  fit() {
    this.isFitted = true;
    const { width, height } = this.size();
    const made = this.made ?? { width: 1, height: 1 };
    this.scale = Math.max(LEAST, Math.min(1, width / made.width, height / made.height));
    this.view = { x: Math.min(0, (made.width - width / this.scale) / 2), y: Math.min(0, (made.height - height / this.scale) / 2) };
    this.look();
  }

  /** @param {number} by @param {{x: number, y: number}} [at] what stays where it is, in the picture */
  zoom(by, at) {
    this.isFitted = false;
    const { width, height } = this.size();
    const fixed = at ?? { x: this.view.x + width / this.scale / 2, y: this.view.y + height / this.scale / 2 };
    const scale = Math.max(LEAST, Math.min(MOST, this.scale * by));
    this.view = { x: fixed.x - ((fixed.x - this.view.x) * this.scale) / scale, y: fixed.y - ((fixed.y - this.view.y) * this.scale) / scale };
    this.scale = scale;
    this.look();
  }

  /** @param {string} key */
  reveal(key) {
    const at = this.made?.places.get(key);
    if (!at) return;
    const { width, height } = this.size();
    const [wide, tall] = [width / this.scale, height / this.scale];
    if (at.x < this.view.x || at.x + SIZE.width > this.view.x + wide) this.view.x = at.x + SIZE.width / 2 - wide / 2;
    if (at.y < this.view.y || at.y + SIZE.height > this.view.y + tall) this.view.y = at.y + SIZE.height / 2 - tall / 2;
    this.look();
  }

  /** @param {string} key */
  focus(key) {
    const node = /** @type {SVGElement | null} */ (this.root.querySelector(`[data-step="${CSS.escape(key)}"]`));
    for (const one of this.root.querySelectorAll("[data-step]")) one.setAttribute("tabindex", one === node ? "0" : "-1");
    node?.focus({ preventScroll: true });
    this.reveal(key);
  }

  // -- mouse and fingers ------------------------------------------------------------------------------------------------

  listen() {
    this.root.addEventListener("pointerdown", (event) => this.press(event));
    this.root.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), this.point(event));
    }, { passive: false });
    this.root.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {{clientX: number, clientY: number}} event */
  point(event) {
    const box = this.root.getBoundingClientRect();
    return { x: this.view.x + (event.clientX - box.left) / this.scale, y: this.view.y + (event.clientY - box.top) / this.scale };
  }

  /** @param {PointerEvent} event */
  press(event) {
    const target = /** @type {Element} */ (event.target);
    if (event.button || target.closest(".cut")) return;
    const port = target.getAttribute("data-port");
    const step = target.closest("[data-step]")?.getAttribute("data-step") ?? "";
    const start = { x: event.clientX, y: event.clientY, view: { ...this.view } };
    let moved = false;
    const wire = port ? svg("path", { class: "edge wire" }) : null;
    if (wire) this.root.append(wire);
    const move = (/** @type {PointerEvent} */ now) => {
      moved ||= Math.hypot(now.clientX - start.x, now.clientY - start.y) > 4;
      if (!moved) return;
      const at = this.point(now);
      if (wire && port) {
        const from = /** @type {{x: number, y: number}} */ (this.made?.places.get(port));
        const out = this.portPlace();
        wire.setAttribute("d", `M${from.x + out.x} ${from.y + out.y}L${at.x} ${at.y}`);
      } else {
        this.isFitted = false;
        this.view = { x: start.view.x - (now.clientX - start.x) / this.scale, y: start.view.y - (now.clientY - start.y) / this.scale };
        this.look();
      }
    };
    const up = (/** @type {PointerEvent} */ now) => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
      removeEventListener("pointercancel", up);
      wire?.remove();
      if (now.type === "pointercancel") return;
      const over = document.elementFromPoint(now.clientX, now.clientY)?.closest("[data-step]")?.getAttribute("data-step") ?? "";
      if (port && moved) {
        if (over && over !== port) this.on.connect(port, over);
      } else if (port) {
        this.on.add(port);
      } else if (!moved && step) {
        if (this.from) this.join(step);
        else this.on.select(step);
      }
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    addEventListener("pointercancel", up);
  }

  // -- keys -------------------------------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event */
  key(event) {
    const step = /** @type {Element} */ (event.target).closest("[data-step]")?.getAttribute("data-step");
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const near = this.neighbour(step, event.key);
    const act = near ? () => this.focus(near) : this.actionsAt(step)[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** @param {string} step @returns {Record<string, () => void>} by key */
  actionsAt(step) {
    const actions = /** @type {Record<string, () => void>} */ ({
      Enter: () => (this.from ? this.join(step) : this.on.open(step)),
      " ": () => (this.from ? this.join(step) : this.on.select(step)),
      Escape: () => this.stop(),
      "+": () => this.zoom(1.25),
      "-": () => this.zoom(0.8),
      0: () => this.fit(),
    });
    if (this.shown.isEditable && step !== START) actions.c = () => this.begin(step);
    return actions;
  }

  /** The step that an arrow leads to. @param {string} key @param {string} arrow */
  neighbour(key, arrow) {
    const columns = this.made?.columns ?? [];
    const column = columns.findIndex((keys) => keys.includes(key));
    const row = columns[column]?.indexOf(key) ?? -1;
    if (arrow === "Home" || arrow === "End") return this.inOrder().at(arrow === "Home" ? 0 : -1);
    const [before, after, previous, next] = this.isDown ? ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"] : ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
    if (arrow === previous) return columns[column]?.[row - 1];
    if (arrow === next) return columns[column]?.[row + 1];
    if (arrow !== before && arrow !== after) return undefined;
    const side = arrow === before ? -1 : 1;
    const joined = this.made?.edges.find((edge) => (side < 0 ? edge.to === key : edge.from === key));
    if (joined) return side < 0 ? joined.from : joined.to;
    for (let at = column + side; columns[at]; at += side) {
      if (columns[at].length) return columns[at][Math.min(row, columns[at].length - 1)];
    }
    return undefined;
  }

  /** @param {string} key */
  begin(key) {
    this.from = key;
    this.redraw();
    this.on.say(gettext("Connecting from %(key)s: go to the step that waits for it and press Enter. Escape stops.", { key }));
  }

  /** @param {string} key */
  join(key) {
    const { from } = this;
    this.from = "";
    if (this.draft?.steps.find((step) => step.key === key)?.needs?.includes(from)) this.on.disconnect(from, key);
    else if (from !== key) this.on.connect(from, key);
    this.redraw();
  }

  stop() {
    if (!this.from) return;
    this.from = "";
    this.redraw();
    this.on.say(gettext("Nothing was connected."));
  }

  redraw() { if (this.draft) this.draw(this.draft, this.shown); }
}
