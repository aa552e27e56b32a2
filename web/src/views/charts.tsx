/** How the controller did in the last hour. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { get, tokenRequest } from "../api";
import { merged } from "../benches";
import type { Bench, BenchInterval, Sample } from "../documents";
import { bytes, clean, count, countOf, perSecond, seconds } from "../format";
import { useTitle } from "../hooks";
import { connection } from "../live";
import { LOG_AXIS, LOG_SCALE, positive } from "../log-axis";
import { Card, Empty } from "../parts";
import { repeat } from "../polling";
import { useValue } from "../store";
import { themeVersion } from "../theme";

const SAMPLES_MAX = 1800;
const INTERVAL_MS = 2000;
/** Packet-ins per second from which the controller is taken to be measured. */
const LOAD_FROM = 2000;

const SPANS = { "5 minutes": 300, "15 minutes": 900, "1 hour": 3600 };

/** What a chart shows over time. */
interface Timed {
  at_unix_s: number;
}

interface Curve<T> {
  label: string;
  value: (sample: T) => number | null;
}

interface ChartInfo<T> {
  title: string;
  curves: Curve<T>[];
  format: (value: number | null) => string;
  /** For durations that differ by orders of magnitude. */
  isLogarithmic?: true;
}

const CHARTS: ChartInfo<Sample>[] = [
  { title: "Packet-ins and messages per second", format: perSecond, curves: [{ label: "packet-ins", value: (s) => s.packet_ins_per_s }, { label: "messages", value: (s) => s.messages_per_s }] },
  { title: "Time from reading messages to writing the responses", format: seconds, isLogarithmic: true, curves: [{ label: "99th percentile", value: (s) => s.latency_p99_s }, { label: "median", value: (s) => s.latency_p50_s }] },
  { title: "Physical memory of the controller", format: bytes, curves: [{ label: "memory", value: (s) => s.resident_bytes }] },
  { title: "Connected switches", format: (value) => count(value === null ? null : Math.round(value)), curves: [{ label: "switches", value: (s) => s.switches }] },
];

/** The charts of a bench whose rate has this unit. */
function benchCharts(unit: string): ChartInfo<BenchInterval>[] {
  return [
    { title: `Rate (${clean(unit)})`, format: perSecond, curves: [{ label: "rate", value: (it) => it.rate_per_s }] },
    { title: "Latency", format: seconds, isLogarithmic: true, curves: [{ label: "99th percentile", value: (it) => it.latency_p99_s }, { label: "median", value: (it) => it.latency_p50_s }] },
  ];
}

/** Calls `read` now, and again every two seconds while the window is shown and the page is connected. `isOver` says whether the answer is no longer wanted. */
function usePolling(read: (isOver: () => boolean) => Promise<void>): void {
  const link = useValue(connection);
  useEffect(() => {
    if (link !== "live") return undefined;
    let isOver = false;
    const poll = async (): Promise<void> => {
      if (tokenRequest.get() !== null) return;
      try {
        await read(() => isOver);
      } catch {
        // The state of the connection is shown at the top.
      }
    };
    const stop = repeat(poll, INTERVAL_MS);
    return () => {
      isOver = true;
      stop();
    };
  }, [link]);
}

/** The benches that report while they run. */
function Benches() {
  const [benches, setBenches] = useState<Bench[]>([]);
  const last = useRef(0);
  usePolling(async (isOver) => {
    const found = await get<{ benches: Bench[]; last_number: number }>(`/v1/bench?after=${last.current}`);
    if (isOver()) return;
    const isNewRun = found.last_number < last.current;
    last.current = isNewRun ? 0 : found.last_number;
    setBenches((known) => (isNewRun ? [] : merged(known, found.benches)));
  });
  return <>{benches.map((bench) => <BenchCard key={bench.bench} bench={bench} />)}</>;
}

function BenchCard(props: { bench: Bench }) {
  const { bench } = props;
  const charts = useMemo(() => benchCharts(bench.unit), [bench.unit]);
  const latest = bench.intervals.at(-1);
  const phase = latest && !latest.is_measured ? " (warm-up or cool-down, not measured)" : "";
  return (
    <section class="bench" aria-label={`Bench of ${clean(bench.target)}`}>
      <p class="note good">
        <span role="status">
          <code>sluice bench</code> measures {clean(bench.target, 100)}: {clean(bench.load, 100)}, {countOf(bench.switches, "switch", "switches")}{phase}.
        </span>{" "}
        Running for {seconds(latest?.running_s)}.
      </p>
      <div class="cards">
        {charts.map((chart) => <Chart key={chart.title} info={chart} samples={bench.intervals} />)}
      </div>
    </section>
  );
}

function useSamples(): Sample[] {
  const [samples, setSamples] = useState<Sample[]>([]);
  const last = useRef(0);
  usePolling(async (isOver) => {
    const found = (await get<{ samples: Sample[] }>(`/v1/time-series?after_unix_s=${last.current}`)).samples;
    if (isOver()) return;
    last.current = found.at(-1)?.at_unix_s ?? last.current;
    setSamples((before) => [...before, ...found].slice(-SAMPLES_MAX));
  });
  return samples;
}

export function ChartsView() {
  useTitle("Charts");
  const samples = useSamples();
  const [span, setSpan] = useState(900);
  const shown = useMemo(() => {
    const from = (samples.at(-1)?.at_unix_s ?? 0) - span;
    return samples.filter((sample) => sample.at_unix_s >= from);
  }, [samples, span]);
  const latest = samples.at(-1);
  const isLoaded = latest !== undefined && latest.packet_ins_per_s >= LOAD_FROM;
  return (
    <>
      <div class="head">
        <h1>Charts</h1>
        <label>
          Last{" "}
          <select value={span} onChange={(event) => setSpan(Number(event.currentTarget.value))}>
            {Object.entries(SPANS).map(([name, value]) => <option key={name} value={value}>{name}</option>)}
          </select>
        </label>
      </div>
      <Benches />
      {latest === undefined ? <Empty title="The first samples arrive within a few seconds" /> : (
        <>
          {isLoaded && (
            <p class="note good">
              <span role="status">Under load, such as that of <code>sluice bench</code></span>: {perSecond(latest.packet_ins_per_s)} packet-ins from {count(Math.round(latest.switches))} switches, 99th percentile {seconds(latest.latency_p99_s)}.
            </p>
          )}
          <div class="cards">
            {CHARTS.map((chart) => <Chart key={chart.title} info={chart} samples={shown} />)}
          </div>
        </>
      )}
    </>
  );
}

function style(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function clock(unixS: number, hasSeconds: boolean): string {
  return new Date(unixS * 1000).toTimeString().slice(0, hasSeconds ? 8 : 5);
}

function options<T>(info: ChartInfo<T>, width: number): uPlot.Options {
  const axis = { stroke: style("muted"), grid: { stroke: style("border"), width: 1 }, ticks: { stroke: style("border"), width: 1 }, font: "12px system-ui, sans-serif" };
  const colours = [style("accent"), style("load-3")];
  return {
    width,
    height: 200,
    cursor: { y: false },
    legend: { show: false },
    scales: { y: info.isLogarithmic ? LOG_SCALE : { range: (_, __, max) => [0, Math.max(max * 1.1, 1e-6)] } },
    axes: [
      { ...axis, space: 70, values: (_, ticks) => ticks.map((tick) => clock(tick, (ticks[1] ?? Infinity) - (ticks[0] ?? 0) < 60)) },
      info.isLogarithmic ? { ...axis, ...LOG_AXIS, size: 78 } : { ...axis, size: 78, values: (_, ticks) => ticks.map((tick) => info.format(tick)) },
    ],
    series: [{}, ...info.curves.map((curve, at) => ({ label: curve.label, stroke: colours[at] ?? style("text"), width: 2, ...(at === 1 ? { dash: [6, 4] } : {}) }))],
  };
}

function Chart<T extends Timed>(props: { info: ChartInfo<T>; samples: T[] }) {
  const { info, samples } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const colours = useValue(themeVersion);
  const data = useMemo((): uPlot.AlignedData => {
    const shown = (value: number | null) => (info.isLogarithmic ? positive(value) : value);
    return [samples.map((sample) => sample.at_unix_s), ...info.curves.map((curve) => samples.map((sample) => shown(curve.value(sample))))];
  }, [samples, info]);
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const made = new uPlot(options(info, element.clientWidth), data, element);
    plot.current = made;
    const resizer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: 200 }));
    resizer.observe(element);
    return () => {
      resizer.disconnect();
      made.destroy();
    };
  }, [info, colours]);
  useEffect(() => plot.current?.setData(data), [data]);
  const latest = samples.at(-1);
  const values = info.curves.map((curve) => `${curve.label} ${info.format(latest ? curve.value(latest) : null)}`).join(", ");
  return (
    <Card title={info.title}>
      <p class="curves">
        {info.curves.map((curve, at) => (
          <span key={curve.label}><span class={`key key-${at}`} aria-hidden="true" /> {curve.label} <strong>{info.format(latest ? curve.value(latest) : null)}</strong></span>
        ))}
        {info.isLogarithmic && <span class="hint">logarithmic axis</span>}
      </p>
      <div class="chart" ref={place} role="img" aria-label={`${info.title}. Now: ${values}.`} />
    </Card>
  );
}
