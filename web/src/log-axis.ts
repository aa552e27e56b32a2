/** Logarithmic axes of durations, with a tick at each power of ten. */
import type uPlot from "uplot";

const UNITS = ["s", "ms", "µs", "ns"];

/** A power of ten; `10 ** -5` is not exactly 0.00001. */
function power(exponent: number): number {
  return Number(`1e${exponent}`);
}

/** What a logarithmic axis can show: it has no place for zero. */
export function positive(value: number | null): number | null {
  return value !== null && value > 0 ? value : null;
}

/** The powers of ten around the smallest and the largest duration in seconds; from 1 µs to 1 ms if there are none. */
export function decadeRange(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [1e-6, 1e-3];
  const from = Math.floor(Math.log10(min));
  return [power(from), power(Math.max(from + 1, Math.ceil(Math.log10(max))))];
}

/** The powers of ten from one to another. */
export function decades(min: number, max: number): number[] {
  const [from, to] = [Math.round(Math.log10(min)), Math.round(Math.log10(max))];
  return Array.from({ length: to - from + 1 }, (_, at) => power(from + at));
}

/** A power of ten of seconds without decimals: `10 µs`. */
export function decadeLabel(valueS: number): string {
  const exponent = Math.round(Math.log10(valueS));
  const unit = Math.min(UNITS.length - 1, Math.max(0, Math.ceil(-exponent / 3)));
  return `${power(exponent + 3 * unit)} ${UNITS[unit]}`;
}

export const LOG_SCALE: uPlot.Scale = { distr: 3, range: (_, min, max) => decadeRange(min, max) };

export const LOG_AXIS: Pick<uPlot.Axis, "splits" | "filter" | "values"> = {
  splits: (_, __, min, max) => decades(min, max),
  filter: (_, splits) => splits,
  values: (_, splits) => splits.map((split) => decadeLabel(split)),
};
