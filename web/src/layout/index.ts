/** Where switches are on the map. */
import { general } from "./general";
import { graphOf, parts, subgraph, type Graph, type LayoutInput, type Point } from "./graph";
import { layered, rows } from "./layers";
import { circle, isRing } from "./ring";

export type { LayoutInput, Point } from "./graph";

export const LAYOUTS = { auto: "Automatic", rows: "Rows (tree, leaf–spine)", ring: "Ring", general: "General" } as const;
export type LayoutName = keyof typeof LAYOUTS;

/** Space between parts that are not connected. */
const GAP = 220;

/** The layout that suits a network. */
export function suitable(graph: Graph): Exclude<LayoutName, "auto"> {
  if (isRing(graph)) return "ring";
  return rows(graph) === null ? "general" : "rows";
}

function place(graph: Graph, name: LayoutName): Point[] {
  const chosen = name === "auto" ? suitable(graph) : name;
  if (chosen === "ring") return circle(graph);
  const levels = chosen === "rows" ? rows(graph) : null;
  return levels === null ? general(graph) : layered(graph, levels);
}

/** Places all switches; parts that are not connected are side by side. */
export function layout(topology: LayoutInput, name: LayoutName): Map<string, Point> {
  const graph = graphOf(topology);
  const all = new Map<string, Point>();
  let [x, y, height, width] = [0, 0, 0, 0];
  parts(graph).forEach((members, index) => {
    const part = subgraph(graph, members);
    const points = place(part, name);
    const [left, top] = [Math.min(...points.map((p) => p.x)), Math.min(...points.map((p) => p.y))];
    const [right, bottom] = [Math.max(...points.map((p) => p.x)), Math.max(...points.map((p) => p.y))];
    // The first part says how wide the map is.
    if (index === 0) width = Math.max(right - left, 8 * GAP);
    else if (x > width) [x, y, height] = [0, y + height + GAP, 0];
    points.forEach((point, at) => all.set(part.ids[at] as string, { x: point.x - left + x, y: point.y - top + y }));
    x += right - left + GAP;
    height = Math.max(height, bottom - top);
  });
  return all;
}

/** Keeps switches where they are when some come and go: new ones are placed near their neighbours. `null` if too many are new. */
export function extended(topology: LayoutInput, known: Map<string, Point>): Map<string, Point> | null {
  const added = topology.switches.filter((it) => !known.has(it.dpid));
  if (known.size === 0 || added.length > Math.max(1, topology.switches.length / 10)) return null;
  const points = new Map<string, Point>();
  topology.switches.forEach((it) => {
    const point = known.get(it.dpid);
    if (point) points.set(it.dpid, point);
  });
  if (added.length === 0) return points;
  const graph = graphOf(topology);
  added.forEach((it, index) => {
    const at = graph.ids.indexOf(it.dpid);
    const near = (graph.neighbours[at] ?? []).flatMap((next) => known.get(graph.ids[next] as string) ?? []);
    const base = near.length > 0 ? near : [...points.values()];
    const mean = (of: (p: Point) => number) => base.reduce((sum, p) => sum + of(p), 0) / Math.max(1, base.length);
    points.set(it.dpid, { x: mean((p) => p.x) + 70 * Math.cos(index + 1), y: mean((p) => p.y) + 70 * Math.sin(index + 1) });
  });
  return points;
}
