// Places the steps of a chain: columns by what they wait for; a long connection has a place of its own in each column
// that it crosses, so that it does not run behind a step. In a tall place the columns are rows, one below the other. Pure.
import { needsOf } from "./draft.js";

export const SIZE = { width: 190, height: 62, gapX: 64, gapY: 22, lane: 14, margin: 18 };
// Between rows, and between the steps of one row, where the picture runs downwards.
const DOWN = { gapX: 26, gapY: 44 };

/** @typedef {{x: number, y: number}} Point */
/** @typedef {{from: string, to: string, kind: "needs" | "instead", isOwn: boolean, points: Point[]}} Edge */

/** @param {import("./draft.js").Draft} draft @param {boolean} [isDown] the steps follow one another downwards @returns {{places: Map<string, Point>, columns: string[][], edges: Edge[], width: number, height: number}} */
export function layout(draft, isDown = false) {
  const links = linksOf(draft);
  const column = columnsOf(draft, links);
  const { layers, chains } = withLanes(draft, links, column);
  untangle(layers, chains);
  const at = isDown ? placeInRows(layers) : placeInColumns(layers);
  const edges = links.map((link, index) => ({ ...link, points: chains[index].map((id) => /** @type {Point} */ (at.get(id))) }));
  const places = new Map(draft.steps.map((step) => [step.key, /** @type {Point} */ (at.get(step.key))]));
  const { width, height, margin } = SIZE;
  return {
    places, edges, columns: layers.map((layer) => layer.filter((id) => places.has(id))),
    width: Math.max(0, ...[...places.values()].map((one) => one.x)) + width + margin,
    height: Math.max(0, ...[...places.values()].map((one) => one.y)) + height + margin,
  };
}

/** @param {import("./draft.js").Draft} draft @returns {Omit<Edge, "points">[]} */
function linksOf(draft) {
  const keys = new Set(draft.steps.map((step) => step.key));
  const own = new Map(draft.steps.map((step) => [step.key, new Set(step.needs ?? [])]));
  const needs = [...needsOf(draft)].flatMap(([to, all]) => all.filter((from) => keys.has(from) && from !== to).map((from) => ({ from, to, kind: /** @type {const} */ ("needs"), isOwn: Boolean(own.get(to)?.has(from)) })));
  const instead = draft.steps.filter((step) => step.on_error === "fallback" && keys.has(step.fallback) && step.fallback !== step.key).map((step) => ({ from: step.key, to: step.fallback, kind: /** @type {const} */ ("instead"), isOwn: true }));
  return [...needs, ...instead];
}

/** One more than the furthest step it waits for; steps of a circle stay where they are when the passes end. */
function columnsOf(/** @type {import("./draft.js").Draft} */ draft, /** @type {Omit<Edge, "points">[]} */ links) {
  const column = new Map(draft.steps.map((step) => [step.key, 0]));
  for (let pass = 0, moved = true; moved && pass < draft.steps.length; pass += 1) {
    moved = false;
    for (const { from, to } of links) {
      const least = Math.min((column.get(from) ?? 0) + 1, draft.steps.length - 1);
      if ((column.get(to) ?? 0) < least) { column.set(to, least); moved = true; }
    }
  }
  return column;
}

/** Layers of ids, and for each link the ids from its start to its end. */
function withLanes(/** @type {import("./draft.js").Draft} */ draft, /** @type {Omit<Edge, "points">[]} */ links, /** @type {Map<string, number>} */ column) {
  /** @type {string[][]} */
  const layers = Array.from({ length: Math.max(0, ...column.values()) + 1 }, () => []);
  for (const step of draft.steps) layers[column.get(step.key) ?? 0].push(step.key);
  const chains = links.map(({ from, to }, index) => {
    const ids = [from];
    for (let at = (column.get(from) ?? 0) + 1; at < (column.get(to) ?? 0); at += 1) {
      const id = `\0${index}/${at}`;
      layers[at].push(id);
      ids.push(id);
    }
    return [...ids, to];
  });
  return { layers, chains };
}

/** Orders each layer by the middle of its neighbours, forth and back. */
function untangle(/** @type {string[][]} */ layers, /** @type {string[][]} */ chains) {
  /** @type {Map<string, string[]>} */
  const before = new Map(), after = new Map();
  const add = (/** @type {Map<string, string[]>} */ map, /** @type {string} */ id, /** @type {string} */ other) => map.set(id, [...(map.get(id) ?? []), other]);
  for (const ids of chains) ids.slice(1).forEach((id, index) => { add(before, id, ids[index]); add(after, ids[index], id); });
  const sweep = (/** @type {string[]} */ layer, /** @type {string[]} */ other, /** @type {Map<string, string[]>} */ near) => {
    const rank = new Map(other.map((id, index) => [id, index / Math.max(1, other.length - 1)]));
    const middle = (/** @type {string} */ id, /** @type {number} */ index) => {
      const ranks = (near.get(id) ?? []).filter((one) => rank.has(one)).map((one) => rank.get(one) ?? 0);
      return ranks.length ? ranks.reduce((sum, one) => sum + one, 0) / ranks.length : index / Math.max(1, layer.length - 1);
    };
    const middles = new Map(layer.map((id, index) => [id, middle(id, index)]));
    layer.sort((one, two) => (middles.get(one) ?? 0) - (middles.get(two) ?? 0));
  };
  for (let pass = 0; pass < 3; pass += 1) {
    for (let at = 1; at < layers.length; at += 1) sweep(layers[at], layers[at - 1], before);
    if (pass < 2) for (let at = layers.length - 2; at >= 0; at -= 1) sweep(layers[at], layers[at + 1], after);
  }
}

/** @param {string} id */
const isLane = (id) => id[0] === "\0";

/** @param {string[][]} layers @returns {Map<string, Point>} the upper left corner of a step, the middle of a lane */
function placeInColumns(layers) {
  const { width, height, gapX, gapY, lane, margin } = SIZE;
  const heightOf = (/** @type {string} */ id) => (isLane(id) ? lane : height);
  const heights = layers.map((layer) => layer.reduce((sum, id) => sum + heightOf(id) + gapY, -gapY));
  const tallest = Math.max(0, ...heights);
  const at = new Map();
  layers.forEach((layer, column) => {
    const x = margin + column * (width + gapX);
    let y = margin + (tallest - heights[column]) / 2;
    for (const id of layer) {
      at.set(id, isLane(id) ? { x: x + width / 2, y: y + lane / 2 } : { x, y });
      y += heightOf(id) + gapY;
    }
  });
  return at;
}

/** @param {string[][]} layers @returns {Map<string, Point>} the same, one layer below the other */
function placeInRows(layers) {
  const { width, height, lane, margin } = SIZE;
  const widthOf = (/** @type {string} */ id) => (isLane(id) ? lane : width);
  const widths = layers.map((layer) => layer.reduce((sum, id) => sum + widthOf(id) + DOWN.gapX, -DOWN.gapX));
  const widest = Math.max(0, ...widths);
  const at = new Map();
  layers.forEach((layer, row) => {
    const y = margin + row * (height + DOWN.gapY);
    let x = margin + (widest - widths[row]) / 2;
    for (const id of layer) {
      at.set(id, isLane(id) ? { x: x + lane / 2, y: y + height / 2 } : { x, y });
      x += widthOf(id) + DOWN.gapX;
    }
  });
  return at;
}

/** The path of a connection, from the bottom of a step to the top of another. @param {Edge} edge */
export function pathDown({ points }) {
  const { width, height } = SIZE;
  const [start, end] = [points[0], points[points.length - 1]];
  const lanes = points.slice(1, -1).flatMap(({ x, y }) => [{ x, y: y - height / 2 }, { x, y: y + height / 2 }]);
  const stops = [{ x: start.x + width / 2, y: start.y + height }, ...lanes, { x: end.x + width / 2, y: end.y }];
  // A circle leads back: from side to side.
  if (end.y <= start.y) return `M${start.x + width} ${start.y + height / 2}L${end.x + width} ${end.y + height / 2}`;
  let path = `M${stops[0].x} ${stops[0].y}`;
  stops.slice(1).forEach((to, index) => {
    const from = stops[index];
    const middle = (from.y + to.y) / 2;
    path += from.x === to.x ? `L${to.x} ${to.y}` : `C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`;
  });
  return path;
}

/** The path of a connection, from the right side of a step to the left side of another. @param {Edge} edge */
export function pathOf({ points }) {
  const { width, height } = SIZE;
  const [start, end] = [points[0], points[points.length - 1]];
  const stops = [{ x: start.x + width, y: start.y + height / 2 }, ...points.slice(1, -1).flatMap(({ x, y }) => [{ x: x - width / 2, y }, { x: x + width / 2, y }]), { x: end.x, y: end.y + height / 2 }];
  if (end.x <= start.x) return `M${start.x + width / 2} ${start.y + height}L${end.x + width / 2} ${end.y}`;
  return stops.slice(1).reduce((path, to, index) => {
    const from = stops[index];
    if (from.y === to.y) return `${path}L${to.x} ${to.y}`;
    const middle = (from.x + to.x) / 2;
    return `${path}C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`;
  }, `M${stops[0].x} ${stops[0].y}`);
}

/** Where a button on the connection is put: the middle of its way. @param {Edge} edge @returns {Point} */
export function middleOf({ points }) {
  const { width, height } = SIZE;
  if (points.length > 2) return points[Math.floor(points.length / 2)];
  // Right in the middle between the middles of both steps, whichever way the picture runs.
  return { x: (points[0].x + points[1].x + width) / 2, y: (points[0].y + points[1].y + height) / 2 };
}
