/** Benches that report to the controller while they run. */
import type { Bench } from "./documents";

/** Intervals that are kept, as many as the controller keeps. */
const INTERVALS_MAX = 900;

/** The benches of an answer that has only new intervals, each with those that are known of the same run. */
export function merged(known: readonly Bench[], found: readonly Bench[]): Bench[] {
  return found.map((bench) => {
    const before = known.find((it) => it.bench === bench.bench && it.run === bench.run);
    if (before === undefined) return bench;
    if (bench.intervals.length === 0) return before;
    return { ...bench, intervals: [...before.intervals, ...bench.intervals].slice(-INTERVALS_MAX) };
  });
}
