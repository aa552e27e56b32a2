import { expect, test } from "vitest";
import { decadeLabel, decadeRange, decades, LOG_SCALE, positive } from "./log-axis";

test("a median and a percentile of a thousand times as much are both within the axis, which is logarithmic", () => {
  expect(LOG_SCALE.distr).toBe(3);
  expect(decadeRange(4e-6, 6e-3)).toEqual([1e-6, 1e-2]);
  expect(decadeRange(4e-6, 4e-6)).toEqual([1e-6, 1e-5]);
  expect(decadeRange(0.3, 20)).toEqual([0.1, 100]);
  expect(decadeRange(null, null)).toEqual([1e-6, 1e-3]);
});

test("ticks are powers of ten, without decimals", () => {
  expect(decades(1e-6, 1e-2)).toEqual([1e-6, 1e-5, 1e-4, 1e-3, 1e-2]);
  expect(decades(1e-8, 10).map(decadeLabel)).toEqual(["10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
});

test("zero and missing values are left out", () => {
  expect([null, 0, 2e-6].map(positive)).toEqual([null, null, 2e-6]);
});
