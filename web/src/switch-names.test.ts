import { afterEach, expect, test } from "vitest";
import type { MapSwitch, Topology } from "./documents";
import { mapModel } from "./map/model";
import { nameOwners, placeName, setConnected, switchName } from "./switch-names";

function switches(names: (string | null)[]): MapSwitch[] {
  return names.map((name, at) => ({ dpid: (at + 10).toString(16).padStart(16, "0"), name, hosts: 0 }));
}

function labels(names: (string | null)[]): string[] {
  const network: Topology = { is_complete: true, switches: switches(names), links: [], blocked_ports: [], benches: 0 };
  setConnected(network.switches);
  return mapModel(network, new Map(), [], []).nodes.map((node) => node.label);
}

afterEach(() => setConnected([]));

test("a switch on the map has its name as label if no other switch has the same one, or else its datapath id", () => {
  expect(labels(["core", "emulated switch", "emulated switch", null, "leaf"])).toEqual(["core", "b", "c", "d", "leaf"]);
  expect(labels(["core", "emulated switch"])).toEqual(["core", "emulated switch"]);
  expect(labels([null, null])).toEqual(["a", "b"]);
});

test("a port is written with its switch", () => {
  expect(placeName({ dpid: "0000000000000001", switch: "s1", port: 2 })).toBe("s1:2");
  expect(placeName({ dpid: "000000000000000a", switch: null, port: 2 })).toBe("a:2");
});

test("lists, peers of ports and places of hosts have no name that several switches have", () => {
  setConnected(switches(["emulated switch", "emulated switch", "core"]));
  const [dpid, port] = ["000000000000000a", 2];
  expect(switchName({ dpid, name: "emulated switch" })).toBe("a");
  expect(placeName({ dpid, switch: "emulated switch", port })).toBe("a:2");
  expect(placeName({ dpid: "000000000000000c", switch: "core", port })).toBe("core:2");
});

test("a switch that is not connected keeps its name unless a connected one has it", () => {
  setConnected(switches(["core"]));
  expect(switchName({ dpid: "00000000000000ff", switch: "old" })).toBe("old");
  expect(switchName({ dpid: "00000000000000ff", switch: "core" })).toBe("ff");
});

test("views are drawn again only if names have changed", () => {
  const changes: number[] = [];
  const stop = nameOwners.subscribe(() => changes.push(nameOwners.get().size));
  for (const names of [["s1", "s2"], ["s1", "s2"], ["s1", "s1"], ["s1", "s1"], ["s1"]]) setConnected(switches(names));
  stop();
  expect(changes).toEqual([2, 1, 1]);
});
