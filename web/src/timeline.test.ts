import { afterEach, expect, test } from "vitest";
import type { EventDocument } from "./documents";
import { setConnected } from "./switch-names";
import { addedSince, eventText } from "./timeline";

const [first, second] = ["0000000000000001", "0000000000000002"];
const shared = "emulated switch";

function event(kind: string, text: string, places: Partial<EventDocument>): EventDocument {
  return { id: "1-1", at_unix_s: 0, kind, text: `${kind.replaceAll("-", " ")}: ${text}`, ...places };
}

afterEach(() => setConnected([]));

test("the text of an event has no name that several switches have", () => {
  setConnected([first, second].map((dpid) => ({ dpid, name: shared, hosts: 0 })));
  const from = { dpid: first, switch: shared, port: 2, port_name: "eth2" };
  const to = { dpid: second, switch: null, port: 3, port_name: "eth3" };
  const link = event("link-down", `${shared} port 2 (eth2) to ${second} port 3 (eth3) reason=port-down`, { from, to });
  expect(eventText(link)).toBe("1 port 2 (eth2) to 2 port 3 (eth3) reason=port-down");
  const connected = event("switch-connected", `${shared} address=127.0.0.1:40468`, { at: { dpid: first, switch: shared } });
  expect(eventText(connected)).toBe("1 address=127.0.0.1:40468");
  const [host, claimant] = [{ mac: "00:00:00:00:00:01", vlan: 0, addresses: [] }, { mac: "00:00:00:00:00:02" }];
  const conflict = event("address-conflict", `${host.mac} at ${shared} port 2 (eth2), claimed by ${claimant.mac} at ${second} port 3 (eth3)`, { host, at: from, claimant, claimant_at: to });
  expect(eventText(conflict)).toBe("00:00:00:00:00:01 at 1 port 2 (eth2), claimed by 00:00:00:00:00:02 at 2 port 3 (eth3)");
});

test("the text of an event has the names of other switches", () => {
  const at = { dpid: first, switch: "s1", port: 2 };
  expect(eventText(event("port-down", "s1 port 2 reason=removed", { at }))).toBe("s1 port 2 reason=removed");
  expect(eventText(event("configuration-reloaded", "changed=log.level", {}))).toBe("changed=log.level");
});

test("events are counted while the time line is paused, also if the oldest are discarded", () => {
  const events = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => ({ ...event("x", "", {}), id: `1-${from + at}` }));
  expect(addedSince(events(0, 5), events(0, 5))).toBe(0);
  expect(addedSince(events(0, 5), events(3, 8))).toBe(3);
  expect(addedSince(events(0, 5), events(7, 12))).toBe(5);
  expect(addedSince([], events(0, 2))).toBe(2);
});
