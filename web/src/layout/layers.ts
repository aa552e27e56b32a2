/** Switches in rows: trees, fat trees, leaf–spine networks. */
import { distances, type Graph, type Point } from "./graph";

/** Distances between switches of a row, and between rows. */
const COLUMN = 90;
const ROW = 150;
/** The largest distance within a row, and the width up to which rows are stretched. */
const COLUMN_MAX = 200;
const SCREEN = 1100;

/** Share of links within a row up to which rows are a good picture. */
const WITHIN_ROW_MAX = 0.05;

/** Rows that fit a screen. */
const ROWS_MAX = 8;

/** Passes in which switches of a row are sorted by those of the next one. */
const SORT_PASSES = 8;

/** The row of each switch, from the top, or `null` if the network has no rows. */
export function rows(graph: Graph): number[] | null {
  if (graph.ids.length < 2) return null;
  const levels = isTree(graph) ? levelsOfTree(graph) : (levelsOfLeafSpine(graph) ?? levelsAboveHosts(graph));
  if (levels === null) return null;
  let within = 0;
  let total = 0;
  levels.forEach((level, at) => {
    for (const next of graph.neighbours[at] ?? []) {
      total += 1;
      if (levels[next] === level) within += 1;
    }
  });
  const isGood = total > 0 && within / total <= WITHIN_ROW_MAX && Math.max(...levels) < ROWS_MAX;
  return isGood ? levels : null;
}

export function isTree(graph: Graph): boolean {
  const ends = graph.neighbours.reduce((sum, list) => sum + list.length, 0);
  return ends / 2 === graph.ids.length - 1 && distances(graph, [0]).every((distance) => distance !== Infinity);
}

/** The root is the middle of the longest path. */
function levelsOfTree(graph: Graph): number[] | null {
  const leaves = graph.ids.map((_, at) => at).filter((at) => (graph.neighbours[at] ?? []).length === 1);
  // A line is a path, and a row of its own.
  if (leaves.length <= 2) return null;
  const first = distances(graph, [0]);
  const end = first.indexOf(Math.max(...first));
  const fromEnd = distances(graph, [end]);
  let at = fromEnd.indexOf(Math.max(...fromEnd));
  const length = fromEnd[at] as number;
  while ((fromEnd[at] as number) > Math.ceil(length / 2)) {
    at = (graph.neighbours[at] ?? []).find((next) => (fromEnd[next] as number) < (fromEnd[at] as number)) as number;
  }
  return distances(graph, [at]);
}

/** Share of the possible links between two rows from which a network is taken to be leaf–spine: some links may be down. */
const LEAF_SPINE_MIN = 0.6;

/** Two rows of which each switch of one is linked to those of the other; the row with hosts, or else the longer one, is at the bottom. */
function levelsOfLeafSpine(graph: Graph): number[] | null {
  const side = distances(graph, [0]).map((distance) => distance % 2);
  const all = graph.ids.map((_, at) => at);
  if (side.some(Number.isNaN) || all.some((at) => (graph.neighbours[at] ?? []).some((next) => side[next] === side[at]))) return null;
  const [even, odd] = [0, 1].map((value) => all.filter((at) => side[at] === value)) as [number[], number[]];
  const links = all.reduce((sum, at) => sum + (graph.neighbours[at] ?? []).length, 0) / 2;
  if (Math.min(even.length, odd.length) < 2 || links < LEAF_SPINE_MIN * even.length * odd.length) return null;
  const hosts = [even, odd].map((row) => row.filter((at) => graph.hasHosts[at]).length) as [number, number];
  const isEvenBelow = hosts[0] === hosts[1] ? even.length > odd.length : hosts[0] > hosts[1];
  return side.map((value) => ((value === 0) === isEvenBelow ? 1 : 0));
}

/** Edge switches, which have hosts, are at the bottom. Before hosts are known, those with the fewest links are taken for them. */
function levelsAboveHosts(graph: Graph): number[] | null {
  const all = graph.ids.map((_, at) => at);
  const degree = (at: number) => (graph.neighbours[at] ?? []).length;
  const least = Math.min(...all.map(degree));
  const withHosts = all.filter((at) => graph.hasHosts[at]);
  for (const edge of [withHosts, all.filter((at) => degree(at) === least)]) {
    if (edge.length === 0 || edge.length === all.length) continue;
    const fromEdge = distances(graph, edge);
    const top = Math.max(...fromEdge);
    if (top !== Infinity) return fromEdge.map((distance) => top - distance);
  }
  return null;
}

/** Places switches in the given rows, with few crossing links. */
export function layered(graph: Graph, levels: number[]): Point[] {
  const all: number[][] = [];
  levels.forEach((level, at) => (all[level] ??= []).push(at));
  const order = graph.ids.map(() => 0);
  for (const row of all) spread(row, order);
  for (let pass = 0; pass < SORT_PASSES; pass += 1) {
    const isDown = pass % 2 === 0;
    const walk = isDown ? all : [...all].reverse();
    for (const row of walk) {
      const mean = new Map(row.map((at) => [at, meanOrder(graph, levels, order, at, isDown ? -1 : 1)]));
      row.sort((a, b) => (mean.get(a) as number) - (mean.get(b) as number) || a - b);
      spread(row, order);
    }
  }
  const widest = Math.max(...all.map((row) => row.length));
  // A narrow network has room on a wide screen.
  const column = Math.max(COLUMN, Math.min(COLUMN_MAX, SCREEN / widest));
  // Rows of a wide network are further apart.
  const row = Math.max(ROW, (widest * COLUMN) / 8);
  return graph.ids.map((_, at) => ({ x: (order[at] as number) * widest * column, y: (levels[at] as number) * row }));
}

/** Positions from 0 to 1 for the switches of a row. */
function spread(row: number[], order: number[]): void {
  row.forEach((at, index) => (order[at] = (index + 0.5) / row.length));
}

function meanOrder(graph: Graph, levels: number[], order: number[], at: number, direction: number): number {
  const level = (levels[at] as number) + direction;
  const near = (graph.neighbours[at] ?? []).filter((next) => levels[next] === level);
  if (near.length === 0) return order[at] as number;
  return near.reduce((sum, next) => sum + (order[next] as number), 0) / near.length;
}
