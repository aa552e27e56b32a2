/** The traffic of the ports of a switch in the last minute. */
import type { PortDocument } from "./documents";

/** Rates of a port that are kept: a minute. */
const RATES_MAX = 30;

/** The known rates of each port in bits per second, with those of another reading, the newest last. Ports that the switch no longer has are left out. */
export function withRates(known: ReadonlyMap<number, number[]>, ports: readonly PortDocument[]): Map<number, number[]> {
  const rates = new Map<number, number[]>();
  for (const { port, rates: latest } of ports) {
    const before = known.get(port) ?? [];
    const sum = latest === null ? [] : [(latest["rx_bits_per_s"] ?? 0) + (latest["tx_bits_per_s"] ?? 0)];
    rates.set(port, [...before, ...sum].slice(-RATES_MAX));
  }
  return rates;
}
