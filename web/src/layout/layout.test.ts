import { expect, test } from "vitest";
import type { Topology } from "../documents";
import { extended, layout } from ".";
import { graphOf } from "./graph";
import { suitable } from ".";

function network(count: number, pairs: [number, number][], hosts: (at: number) => number = () => 0): Topology {
  return {
    is_complete: true,
    switches: Array.from({ length: count }, (_, at) => ({ dpid: String(at).padStart(16, "0"), name: null, hosts: hosts(at) })),
    links: pairs.flatMap(([from, to]) => [
      { from, from_port: 1, to, to_port: 1, is_drained: false, bits_per_s: null, speed_bits_per_s: null },
      { from: to, from_port: 1, to: from, to_port: 1, is_drained: false, bits_per_s: null, speed_bits_per_s: null },
    ]),
    blocked_ports: [],
    benches: 0,
  };
}

const ring = network(5, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]);
const tree = network(7, [[0, 1], [0, 2], [1, 3], [1, 4], [2, 5], [2, 6]]);
const leafSpine = network(6, [0, 1].flatMap((spine) => [2, 3, 4, 5].map((leaf): [number, number] => [spine, leaf])), (at) => (at > 1 ? 3 : 0));
const torus = network(16, Array.from({ length: 16 }, (_, at): [number, number][] => [[at, (at & ~3) | ((at + 1) & 3)], [at, (at + 4) % 16]]).flat());

test("the layout follows from the shape of the network", () => {
  expect(suitable(graphOf(ring))).toBe("ring");
  expect(suitable(graphOf(tree))).toBe("rows");
  expect(suitable(graphOf(leafSpine))).toBe("rows");
  expect(suitable(graphOf(torus))).toBe("general");
});

test("the root of a tree is above its branches, and spines above leaves", () => {
  const y = (of: Topology, at: number) => layout(of, "auto").get(of.switches[at]?.dpid ?? "")?.y ?? NaN;
  expect(y(tree, 0)).toBeLessThan(y(tree, 1));
  expect(y(tree, 1)).toBeLessThan(y(tree, 3));
  expect(y(leafSpine, 0)).toBeLessThan(y(leafSpine, 2));
  expect(y(leafSpine, 0)).toBe(y(leafSpine, 1));
});

test("a leaf–spine network has two rows before all hosts are known", () => {
  const few = network(5, [3, 4].flatMap((spine) => [0, 1, 2].map((leaf): [number, number] => [leaf, spine])), (at) => (at < 2 ? 1 : 0));
  const placed = layout(few, "auto");
  const points = few.switches.map((it) => placed.get(it.dpid));
  expect(new Set(points.map((point) => point?.y)).size).toBe(2);
  expect(points[2]?.y).toBe(points[0]?.y);
  expect(points[3]?.y).toBeLessThan(points[0]?.y ?? 0);
});

test("no two switches are at the same place, in any layout", () => {
  const apart = network(9, [[0, 1], [3, 4], [4, 5]]);
  for (const of of [ring, tree, leafSpine, torus, apart, network(1, []), network(0, [])]) {
    for (const name of ["auto", "rows", "ring", "general"] as const) {
      const points = [...layout(of, name).values()];
      expect(points).toHaveLength(of.switches.length);
      for (const [at, a] of points.entries()) {
        expect(Number.isFinite(a.x) && Number.isFinite(a.y)).toBe(true);
        for (const b of points.slice(at + 1)) expect(Math.hypot(a.x - b.x, a.y - b.y)).toBeGreaterThan(20);
      }
    }
  }
});

test("switches stay where they are when one is added", () => {
  const known = layout(network(12, [[0, 1]]), "auto");
  const more = extended(network(13, [[0, 1], [12, 1]]), known);
  expect(more?.get("0".padStart(16, "0"))).toEqual(known.get("0".padStart(16, "0")));
  expect(more?.size).toBe(13);
  expect(extended(network(40, []), known)).toBeNull();
});
