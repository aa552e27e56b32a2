/** Switches in a circle. */
import type { Graph, Point } from "./graph";

const SPACING = 110;

/** Whether the switches are one ring. */
export function isRing(graph: Graph): boolean {
  const count = graph.ids.length;
  return count >= 3 && graph.neighbours.every((near) => near.length === 2) && walk(graph).length === count;
}

/** Switches along links, as far as there are some that were not visited. */
function walk(graph: Graph): number[] {
  const seen = new Set<number>();
  const order: number[] = [];
  let at: number | undefined = graph.ids.length > 0 ? 0 : undefined;
  while (at !== undefined) {
    seen.add(at);
    order.push(at);
    at = (graph.neighbours[at] ?? []).find((next) => !seen.has(next));
  }
  return order;
}

export function circle(graph: Graph): Point[] {
  const order = walk(graph);
  const visited = new Set(order);
  graph.ids.forEach((_, at) => {
    if (!visited.has(at)) order.push(at);
  });
  const radius = Math.max(SPACING, (order.length * SPACING) / (2 * Math.PI));
  const points: Point[] = graph.ids.map(() => ({ x: 0, y: 0 }));
  order.forEach((at, index) => {
    const angle = (index / order.length) * 2 * Math.PI - Math.PI / 2;
    points[at] = { x: radius * Math.cos(angle), y: radius * Math.sin(angle) };
  });
  return points;
}
