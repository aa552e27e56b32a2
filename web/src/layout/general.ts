/** A layout for any network: distances on the map are like numbers of links, and switches do not overlap. */
import { distances, type Graph, type Point } from "./graph";

const SPACING = 110;
/** Switches from which distances to all others are measured. */
const PIVOTS = 40;
/** Steps in which links pull and near switches push. */
const STEPS = 60;
const POWER_STEPS = 30;

export function general(graph: Graph): Point[] {
  const count = graph.ids.length;
  if (count === 0) return [];
  if (count === 1) return [{ x: 0, y: 0 }];
  if (count === 2) return [{ x: 0, y: 0 }, { x: SPACING, y: 0 }];
  const points = scaled(graph, coordinates(graph));
  relax(graph, points);
  return points;
}

/** Two coordinates by the distances to some switches that are far from each other (pivot MDS, Brandes and Pich 2007). */
function coordinates(graph: Graph): [number[], number[]] {
  const rows: number[][] = [];
  const nearest = graph.ids.map(() => Infinity);
  let pivot = 0;
  for (let k = 0; k < Math.min(PIVOTS, graph.ids.length); k += 1) {
    const row = distances(graph, [pivot]).map((d) => (d === Infinity ? 0 : d));
    rows.push(row);
    row.forEach((d, at) => (nearest[at] = Math.min(nearest[at] as number, d)));
    pivot = nearest.indexOf(Math.max(...nearest));
  }
  const columns = centred(rows);
  const first = axis(columns, null);
  const second = axis(columns, first);
  const project = (direction: number[]) =>
    graph.ids.map((_, at) => columns.reduce((sum, column, k) => sum + (column[at] as number) * (direction[k] as number), 0));
  return [project(first), project(second)];
}

/** Squared distances, with the means of rows and columns taken out. */
function centred(rows: number[][]): number[][] {
  const squared = rows.map((row) => row.map((d) => d * d));
  const count = squared[0]?.length ?? 0;
  const mean = (list: number[]) => list.reduce((sum, x) => sum + x, 0) / list.length;
  const ofRows = squared.map(mean);
  const ofColumns = Array.from({ length: count }, (_, at) => mean(squared.map((row) => row[at] as number)));
  const all = mean(ofRows);
  return squared.map((row, k) => row.map((x, at) => -0.5 * (x - (ofRows[k] as number) - (ofColumns[at] as number) + all)));
}

/** The direction in which the columns differ most, orthogonal to `other` (power iteration). */
function axis(columns: number[][], other: number[] | null): number[] {
  const products = columns.map((a) => columns.map((b) => a.reduce((sum, x, at) => sum + x * (b[at] as number), 0)));
  let direction = columns.map((_, k) => Math.sin(k + 1));
  for (let step = 0; step < POWER_STEPS; step += 1) {
    let next = products.map((row) => row.reduce((sum, x, k) => sum + x * (direction[k] as number), 0));
    if (other !== null) {
      const along = next.reduce((sum, x, k) => sum + x * (other[k] as number), 0);
      next = next.map((x, k) => x - along * (other[k] as number));
    }
    const length = Math.hypot(...next) || 1;
    direction = next.map((x) => x / length);
  }
  return direction;
}

/** Stretches the coordinates so that links have the usual length in the mean. */
function scaled(graph: Graph, [xs, ys]: [number[], number[]]): Point[] {
  let sum = 0;
  let links = 0;
  graph.neighbours.forEach((near, at) => {
    for (const next of near) {
      sum += Math.hypot((xs[at] as number) - (xs[next] as number), (ys[at] as number) - (ys[next] as number));
      links += 1;
    }
  });
  const factor = sum > 0 ? (SPACING * links) / sum : 1;
  // Switches at the same place need a direction in which to part.
  return graph.ids.map((_, at) => ({
    x: (xs[at] as number) * factor + Math.cos(at * 2.4),
    y: (ys[at] as number) * factor + Math.sin(at * 2.4),
  }));
}

/** Links pull their ends together, and switches that are too near push each other away. */
function relax(graph: Graph, points: Point[]): void {
  for (let step = 0; step < STEPS; step += 1) {
    const strength = 0.35 * (1 - step / STEPS);
    const moves = points.map(() => ({ x: 0, y: 0 }));
    graph.neighbours.forEach((near, at) => {
      for (const next of near) if (next > at) pull(points, moves, at, next, strength / Math.max(1, near.length / 2));
    });
    push(points, moves);
    points.forEach((point, at) => {
      const move = moves[at] as Point;
      point.x += move.x;
      point.y += move.y;
    });
  }
}

function pull(points: Point[], moves: Point[], a: number, b: number, strength: number): void {
  const [from, to] = [points[a] as Point, points[b] as Point];
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const by = (strength * (length - SPACING)) / length / 2;
  const [moveA, moveB] = [moves[a] as Point, moves[b] as Point];
  moveA.x += dx * by;
  moveA.y += dy * by;
  moveB.x -= dx * by;
  moveB.y -= dy * by;
}

function push(points: Point[], moves: Point[]): void {
  const cells = new Map<string, number[]>();
  const cell = (value: number) => Math.floor(value / SPACING);
  points.forEach((point, at) => {
    const key = `${cell(point.x)} ${cell(point.y)}`;
    const members = cells.get(key);
    if (members) members.push(at);
    else cells.set(key, [at]);
  });
  points.forEach((point, at) => {
    const move = moves[at] as Point;
    for (let x = -1; x <= 1; x += 1) {
      for (let y = -1; y <= 1; y += 1) {
        for (const other of cells.get(`${cell(point.x) + x} ${cell(point.y) + y}`) ?? []) {
          if (other === at) continue;
          const [dx, dy] = [point.x - (points[other] as Point).x, point.y - (points[other] as Point).y];
          const length = Math.hypot(dx, dy) || 0.01;
          if (length >= SPACING * 0.8) continue;
          const by = (0.25 * (SPACING * 0.8 - length)) / length;
          move.x += dx * by;
          move.y += dy * by;
        }
      }
    }
  });
}
