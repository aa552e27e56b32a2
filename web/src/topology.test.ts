import { expect, test } from "vitest";
import type { Topology } from "./documents";
import { mapModel } from "./map/model";
import { withDistinctNames } from "./topology";

function labels(names: (string | null)[]): string[] {
  const switches = names.map((name, at) => ({ dpid: (at + 10).toString(16).padStart(16, "0"), name, hosts: 0 }));
  const network: Topology = { is_complete: true, switches, links: [], blocked_ports: [], benches: 0 };
  return mapModel(withDistinctNames(network), new Map(), [], []).nodes.map((node) => node.label);
}

test("a switch on the map has its name as label if no other switch has the same one, or else its datapath id", () => {
  expect(labels(["core", "emulated switch", "emulated switch", null, "leaf"])).toEqual(["core", "b", "c", "d", "leaf"]);
  expect(labels(["core", "emulated switch"])).toEqual(["core", "emulated switch"]);
  expect(labels([null, null])).toEqual(["a", "b"]);
});
