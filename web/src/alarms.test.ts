import { expect, test, vi } from "vitest";
import type { EventDocument, Quarantine, StaticEntry, Topology } from "./documents";

vi.stubGlobal("location", { hash: "" });
vi.stubGlobal("addEventListener", () => undefined);
const { alarms, storeText } = await import("./alarms");
const { setConnected } = await import("./switch-names");

const network: Topology = {
  is_complete: true,
  switches: [{ dpid: "1", name: "s1", hosts: 0 }, { dpid: "2", name: "s2", hosts: 0 }],
  links: [
    { from: 0, from_port: 1, to: 1, to_port: 2, is_drained: true, bits_per_s: null, speed_bits_per_s: null },
    { from: 1, from_port: 2, to: 0, to_port: 1, is_drained: true, bits_per_s: null, speed_bits_per_s: null },
  ],
  blocked_ports: [],
  benches: 0,
};
const nothing = { storeError: null, topology: null, events: [], refused: [], quarantines: [] };

function event(kind: string, at_unix_s: number, port = 1): EventDocument {
  return { id: `1-${at_unix_s}`, at_unix_s, kind, text: `${kind}: x`, at: { dpid: "1", switch: "s1", port }, host: { mac: "m", vlan: 0, addresses: [] } };
}

test("ports that send too many packet-ins are alarms, and those that are not needed are not", () => {
  const port = { switch: 0, port: 7, port_name: "s1-eth7", reason: "packet-ins", host: null, packets_per_s_max: 1000 } as const;
  const blocked_ports = [port, { ...port, host: "00:00:00:00:00:01" }, { ...port, reason: "shared-segment", packets_per_s_max: null } as const];
  expect(alarms({ ...nothing, topology: { ...network, links: [], blocked_ports } }, 3).map((it) => [it.kind, it.text, it.dpid])).toEqual([
    ["blocked", "Port s1:7 sends more than 1,000 packet-ins per second and is blocked or limited", "1"],
    ["blocked", "Host 00:00:00:00:00:01 at port s1:7 sends more than 1,000 packet-ins per second and is blocked or limited", "1"],
  ]);
});

test("an alarm has no name that several switches have", () => {
  setConnected([{ dpid: "1", name: "s1", hosts: 0 }, { dpid: "3", name: "s1", hosts: 0 }]);
  const at = { dpid: "1", switch: "s1", port: 1 };
  const conflict = { ...event("address-conflict", 1000), text: "address conflict: m at s1 port 1", at };
  expect(alarms({ ...nothing, events: [conflict] }, 1001).map((it) => it.text)).toEqual(["Address conflict: m at 1 port 1"]);
  setConnected([]);
});

test("an address conflict is shown for ten minutes", () => {
  const conflict = [event("address-conflict", 1000), event("address-conflict", 1010)];
  expect(alarms({ ...nothing, events: conflict }, 1300)).toHaveLength(1);
  expect(alarms({ ...nothing, events: conflict }, 1700)).toHaveLength(0);
});

test("a drained link is one alarm, though each direction is listed", () => {
  expect(alarms({ ...nothing, topology: network }, 0)).toEqual([
    { kind: "drained", text: "Link s1:1 to s2:2 is out of service", dpid: null, address: "#/link/1/1" },
  ]);
});

test("refused entries and quarantined hosts are alarms", () => {
  const refused = [{ name: "a/b", reason: "TABLE_FULL" } as StaticEntry];
  const quarantines = [{ mac: "00:00:00:00:00:03", addresses: ["fe80::3", "10.0.0.3"], at: { dpid: "2", switch: "s2", port: 1 } } as Quarantine];
  expect(alarms({ ...nothing, refused, quarantines }, 0).map((it) => [it.text, it.address, it.dpid])).toEqual([
    ["Static entry a/b is refused: TABLE_FULL", "#/entry/a%2Fb", null],
    ["Host 10.0.0.3 is in quarantine", "#/host/00%3A00%3A00%3A00%3A00%3A03", "2"],
  ]);
});

test("the first alarm is an error of the store, with what to do", () => {
  const refused = [{ name: "a", reason: "TABLE_FULL" } as StaticEntry];
  const message = "/var/lib/sluice/static.redb: Permission denied (os error 13)";
  for (const operation of ["open", "write"] as const) {
    const [alarm] = alarms({ ...nothing, storeError: { operation, message }, refused }, 0);
    expect(alarm).toEqual({ kind: "store", text: storeText({ operation, message }), dpid: null, address: "#/entries" });
    expect(alarm?.text).toContain(message);
    expect(alarm?.text).toContain("Run sluice doctor");
  }
  expect(storeText({ operation: "open", message })).toContain("restart the controller");
  expect(storeText({ operation: "write", message })).toContain("make the change again");
});
