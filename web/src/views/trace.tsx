/** Follows a packet through the flow tables. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { change } from "../api";
import type { TraceDocument } from "../documents";
import { clean, countOf } from "../format";
import { useTitle } from "../hooks";
import { layout } from "../layout";
import { topology } from "../live";
import { MapCanvas } from "../map/canvas";
import { mapModel } from "../map/model";
import { Badge, Card, ErrorNote, Field } from "../parts";
import { go, href, route } from "../router";
import { useValue } from "../store";
import { placeName } from "../switch-names";
import { themeVersion } from "../theme";

export function TraceView() {
  useTitle("Trace");
  const { query } = useValue(route);
  const [mode, setMode] = useState<"hosts" | "packet">(query.has("switch") ? "packet" : "hosts");
  const [from, setFrom] = useState(query.get("from") ?? "");
  const [to, setTo] = useState(query.get("to") ?? "");
  const [at, setAt] = useState({ switch: query.get("switch") ?? "", port: "1", flow: "icmp,dl_dst=00:00:00:00:00:02,nw_dst=10.0.0.2" });
  const [result, setResult] = useState<TraceDocument | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);
  const trace = async (): Promise<void> => {
    setIsBusy(true);
    const body = mode === "hosts" ? { from: from.trim(), to: to.trim() } : { at: { switch: at.switch.trim(), port: Number(at.port) }, flow: at.flow.trim() };
    try {
      setResult(await change<TraceDocument>("POST", "/v1/trace", body));
      setError(null);
    } catch (problem) {
      setResult(null);
      setError(problem);
    } finally {
      setIsBusy(false);
    }
  };
  useEffect(() => {
    if (query.has("from") && query.has("to")) void trace();
  }, []);
  return (
    <>
      <h1>Trace</h1>
      <Card>
        <p class="hint">Shows how a packet travels, from the flow tables as they are now. Nothing is sent.</p>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void trace();
          }}
        >
          <div class="row" role="group" aria-label="What is traced">
            <button type="button" aria-pressed={mode === "hosts"} onClick={() => setMode("hosts")}>A ping between hosts</button>
            <button type="button" aria-pressed={mode === "packet"} onClick={() => setMode("packet")}>A packet at a port</button>
          </div>
          {mode === "hosts" ? (
            <div class="fields">
              <Field label="From" id="trace-from"><input id="trace-from" required placeholder="10.0.0.1" value={from} onInput={(event) => setFrom(event.currentTarget.value)} /></Field>
              <Field label="To" id="trace-to"><input id="trace-to" required placeholder="10.0.0.2" value={to} onInput={(event) => setTo(event.currentTarget.value)} /></Field>
            </div>
          ) : (
            <div class="fields">
              <Field label="Switch" id="trace-switch"><input id="trace-switch" required value={at.switch} onInput={(event) => setAt({ ...at, switch: event.currentTarget.value })} /></Field>
              <Field label="Port" id="trace-port"><input id="trace-port" required inputMode="numeric" pattern="[0-9]+" value={at.port} onInput={(event) => setAt({ ...at, port: event.currentTarget.value })} /></Field>
              <Field label="Fields" id="trace-flow" class="whole" hint="In the syntax of ovs-ofctl."><input id="trace-flow" required value={at.flow} onInput={(event) => setAt({ ...at, flow: event.currentTarget.value })} /></Field>
            </div>
          )}
          <div class="row"><button type="submit" class="primary" disabled={isBusy}>{isBusy ? "Tracing…" : "Trace"}</button></div>
        </form>
      </Card>
      <ErrorNote error={error} />
      {result && <Result of={result} />}
    </>
  );
}

function Result(props: { of: TraceDocument }) {
  const it = props.of;
  const tone = it.outcome === "delivered" ? "good" : ["dropped", "loop"].includes(it.outcome) ? "bad" : "warn";
  const path = it.hops.map((hop) => hop.at.dpid);
  return (
    <>
      <p class={`note ${tone}`} role="status"><strong>{it.outcome}</strong>: {clean(it.summary, 400)}</p>
      <PathMap path={path} />
      <Card title="Hop by hop">
        <ol class="hops">
          {it.hops.map((hop) => (
            <li key={hop.hop}>
              <h3><a href={href("switch", hop.at.dpid)}>{placeName(hop.at)}</a></h3>
              <p><code>{clean(hop.packet.text, 600)}</code></p>
              <ul class="steps">
                {hop.steps.map((step, at) => <li key={at}><Step of={step} ends={it.ends} /></li>)}
              </ul>
            </li>
          ))}
        </ol>
      </Card>
    </>
  );
}

function Step(props: { of: TraceDocument["hops"][number]["steps"][number]; ends: TraceDocument["ends"] }) {
  const { of: step, ends } = props;
  switch (step.step) {
    case "entry":
      return <>table {step.table}, priority {step.priority}, {step.owner ?? "foreign"}: <code>{clean(step.text ?? "", 600)}</code></>;
    case "miss":
      return <>table {step.table}: no entry matches{step.result && `, ${clean(step.result)}`}</>;
    case "forward":
      return <>to {step.to ? placeName(step.to) : "the port"}</>;
    case "end": {
      const end = ends[step.end ?? -1];
      return <><Badge tone={end?.outcome === "delivered" ? "good" : "warn"}>{end?.outcome ?? "end"}</Badge> {clean(end?.text ?? "", 300)}</>;
    }
    default:
      return <>{clean(step.text ?? step.step, 300)}</>;
  }
}

/** The switches of the path and their neighbours. */
function PathMap(props: { path: string[] }) {
  const network = useValue(topology);
  const colours = useValue(themeVersion);
  const canvas = useRef<HTMLCanvasElement>(null);
  const map = useRef<MapCanvas | null>(null);
  const model = useMemo(() => (network === null ? null : mapModel(network, layout(network, "auto"), [], [])), [network === null, props.path]);
  useEffect(() => {
    if (canvas.current === null) return undefined;
    map.current = new MapCanvas(canvas.current, {
      select: (found) => {
        if (found?.kind === "switch") go(href("switch", found.id));
      },
      open: () => undefined,
    });
    return () => map.current?.destroy();
  }, []);
  useEffect(() => {
    if (model !== null) map.current?.show(model);
    map.current?.showPath(props.path);
  }, [model, props.path]);
  useEffect(() => map.current?.updateTheme(), [colours]);
  return (
    <div class="card path-map">
      <canvas ref={canvas} role="img" aria-label={`The path on the map: ${countOf(props.path.length, "switch", "switches")}, listed below`} />
    </div>
  );
}
