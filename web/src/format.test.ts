import { expect, test } from "vitest";
import { age, bits, bytes, clean, countOf, hostName, load, loadClass, seconds, shortDpid, time, total } from "./format";
import { SseParser } from "./sse";

test("numbers have units", () => {
  expect([bits(0), bits(999), bits(94_100_000), bits(1.5e9), bits(null)]).toEqual(["0 bit/s", "999 bit/s", "94.1 Mbit/s", "1.5 Gbit/s", "–"]);
  expect([bytes(512), bytes(1536), bytes(300 * 1024 * 1024)]).toEqual(["512 B", "1.5 KiB", "300 MiB"]);
  expect([seconds(8e-6), seconds(0.0042), seconds(2.5)]).toEqual(["8 µs", "4.2 ms", "2.5 s"]);
  expect([age(100, 130_000), age(0, 7_260_000)]).toEqual(["30 s", "2 h 1 min"]);
  expect([null, 0, 1e6, 5e9].map((rate) => loadClass(rate, null))).toEqual([0, 0, 2, 5]);
  expect([null, 9e6, 1e7, 6e8, 1e9].map((rate) => loadClass(rate, 1e9))).toEqual([0, 0, 1, 4, 5]);
  expect([load(5e8, 1e9), load(1e6, 1e9), load(1e6, null), load(null, 1e9)]).toEqual(["500 Mbit/s (50 %)", "1.0 Mbit/s (0.1 %)", "1.0 Mbit/s", "–"]);
});

test("a sum of counters is unknown only if both are", () => {
  expect([total(2, 3), total(null, 3), total(0, undefined), total(null, undefined)]).toEqual([5, 3, 0, null]);
});

test("date and time are local", () => {
  const before = process.env["TZ"];
  try {
    process.env["TZ"] = "Pacific/Auckland";
    const at = Date.UTC(2026, 0, 4, 12, 30, 5);
    expect(time(at / 1000, at)).toBe("01:30:05");
    expect(time(at / 1000, at + 86_400_000)).toBe("2026-01-05 01:30:05");
  } finally {
    if (before === undefined) delete process.env["TZ"];
    else process.env["TZ"] = before;
  }
});

test("names that switches report are shown as one short line without control characters", () => {
  expect(clean("<img src=x onerror=alert(1)>")).toBe("<img src=x onerror=alert(1)>");
  expect(clean("a\u202egnp.exe\u0000\n")).toBe("a\ufffdgnp.exe\ufffd\ufffd");
  expect([...clean("x".repeat(10_000))]).toHaveLength(64);
  expect(clean("x".repeat(10_000)).endsWith("…")).toBe(true);
});

test("a datapath id is written without leading zeros", () => {
  expect(["000000000000000a", "0000000000000000"].map(shortDpid)).toEqual(["a", "0"]);
});

test("one thing is written in the singular", () => {
  expect([countOf(0, "host"), countOf(1, "host"), countOf(1200, "host")]).toEqual(["0 hosts", "1 host", "1,200 hosts"]);
  expect([countOf(1, "switch", "switches"), countOf(2, "switch", "switches")]).toEqual(["1 switch", "2 switches"]);
});

test("a host is shown by its name, or else by its IPv4, global IPv6, link-local or Ethernet address", () => {
  const [mac, name] = ["00:00:00:00:00:01", null];
  const all = ["fe80::200:ff:fe00:1", "2001:db8::1", "10.0.0.1", "10.0.0.2"];
  expect(hostName({ mac, name: "printer\n", addresses: all })).toBe("printer\ufffd");
  expect(hostName({ mac, name, addresses: all })).toBe("10.0.0.1");
  expect(hostName({ mac, name, addresses: all.slice(0, 2) })).toBe("2001:db8::1");
  expect(hostName({ mac, name, addresses: all.slice(0, 1) })).toBe("fe80::200:ff:fe00:1");
  expect(hostName({ mac, name, addresses: [] })).toBe(mac);
});

test("a stream is split into messages wherever its parts end", () => {
  const text = ": comment\nid: 1-1\n\nevent: link-down\ndata: {\"a\":1}\nid: 1-2\n\n";
  for (let at = 0; at <= text.length; at += 1) {
    const parser = new SseParser();
    const found = [...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))];
    expect(found).toEqual([{ event: "", data: "", id: "1-1" }, { event: "link-down", data: '{"a":1}', id: "1-2" }]);
  }
});
