import { expect, test } from "vitest";
import { merged } from "./benches";
import type { Bench } from "./documents";

function bench(name: string, run: number, numbers: number[]): Bench {
  return {
    bench: name, run, target: "192.0.2.7:6653", load: "", switches: 1, unit: "responses/s",
    intervals: numbers.map((number) => ({ number, at_unix_s: number, running_s: number, rate_per_s: 1, latency_p50_s: null, latency_p99_s: null, is_measured: true })),
  };
}

function numbers(benches: Bench[]): number[][] {
  return benches.map(({ intervals }) => intervals.map(({ number }) => number));
}

test("new intervals are added to those of the same run", () => {
  const known = [bench("a", 1, [1, 2]), bench("b", 1, [3])];
  expect(numbers(merged(known, [bench("a", 1, [4]), bench("b", 1, [])]))).toEqual([[1, 2, 4], [3]]);
  expect(merged(known, [bench("b", 1, [])])[0]).toBe(known[1]);
});

test("another run replaces the one before, and a bench that is over is not kept", () => {
  const known = [bench("a", 1, [1, 2]), bench("b", 1, [3])];
  expect(numbers(merged(known, [bench("a", 2, [4])]))).toEqual([[4]]);
  expect(merged(known, [])).toEqual([]);
});

test("the number of intervals is bounded", () => {
  const known = [bench("a", 1, Array.from({ length: 900 }, (_, at) => at))];
  expect(numbers(merged(known, [bench("a", 1, [900])]))[0]?.slice(0, 1)).toEqual([1]);
});
