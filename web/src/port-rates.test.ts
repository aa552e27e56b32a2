import { expect, test } from "vitest";
import type { PortDocument } from "./documents";
import { withRates } from "./port-rates";

function port(number: number, rx: number | null): PortDocument {
  const rates = rx === null ? null : { rx_bits_per_s: rx, tx_bits_per_s: 1 };
  return { port: number, name: "", mac: "", is_enabled: true, is_up: true, speed_bits_per_s: null, role: "edge", peer: null, hosts: 0, statistics: null, rates };
}

test("the rates of a minute are kept, of the ports that the switch has", () => {
  let rates = withRates(new Map(), [port(1, 10), port(2, null)]);
  expect([...rates]).toEqual([[1, [11]], [2, []]]);
  rates = withRates(rates, [port(1, 20), port(3, 5)]);
  expect([...rates]).toEqual([[1, [11, 21]], [3, [6]]]);
  for (let reading = 0; reading < 100; reading += 1) rates = withRates(rates, [port(1, reading)]);
  expect(rates.get(1)).toHaveLength(30);
  expect(rates.get(1)?.at(-1)).toBe(100);
});

test("a port whose rates are not known for a moment keeps those before", () => {
  const rates = withRates(new Map([[1, [7]]]), [port(1, null)]);
  expect(rates.get(1)).toEqual([7]);
});
