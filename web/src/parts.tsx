/** Small parts of views. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { describe } from "./api";
import { copyText } from "./clipboard";
import { connectCommands, controllerAddress, isLoopback, OPENFLOW_PORT } from "./connect";
import type { Place } from "./documents";
import { href } from "./router";
import { placeName, switchName } from "./switch-names";

export function Card(props: { title?: string; actions?: ComponentChildren; children: ComponentChildren; class?: string }) {
  return (
    <section class={`card ${props.class ?? ""}`}>
      {(props.title || props.actions) && (
        <header class="card-head">
          {props.title && <h2>{props.title}</h2>}
          {props.actions && <div class="actions">{props.actions}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

/** A text that does not take room when there is none. */
export function ErrorNote(props: { error: unknown }) {
  return props.error === null || props.error === undefined ? null : (
    <p class="note bad" role="alert">
      {describe(props.error)}
    </p>
  );
}

export function Badge(props: { tone?: "good" | "bad" | "warn" | "plain"; children: ComponentChildren }) {
  return <span class={`badge ${props.tone ?? "plain"}`}>{props.children}</span>;
}

/** A table that scrolls within its own frame. */
export function Table(props: { label: string; head: (string | [string, "number"])[]; children: ComponentChildren }) {
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.head.map((title) => (
              <th scope="col" class={typeof title === "string" ? "" : "number"} key={String(title)}>
                {typeof title === "string" ? title : title[0]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}

export function PlaceLink(props: { place: Place | null | undefined }) {
  const { place } = props;
  if (!place) return <>–</>;
  return <a href={href("switch", place.dpid)}>{placeName(place)}</a>;
}

export function SwitchLink(props: { dpid: string; name: string | null }) {
  return <a href={href("switch", props.dpid)}>{switchName(props)}</a>;
}

/** How long a button says that its text was copied. */
const COPIED_MS = 1500;

/** A command that can be copied. */
export function Command(props: { text: string }) {
  const [outcome, setOutcome] = useState<"copied" | "refused" | null>(null);
  const code = useRef<HTMLElement>(null);
  const copy = async (): Promise<void> => {
    if (code.current !== null) setOutcome((await copyText(code.current)) ? "copied" : "refused");
  };
  useEffect(() => {
    if (outcome !== "copied") return undefined;
    const timer = setTimeout(() => setOutcome(null), COPIED_MS);
    return () => clearTimeout(timer);
  }, [outcome]);
  const label = outcome === "copied" ? "Copied" : "Copy";
  return (
    <>
      <div class="command">
        <code ref={code}>{props.text}</code>
        <button type="button" class="small" onClick={() => void copy()} aria-label={`${label}: ${props.text}`}>{label}</button>
      </div>
      {outcome === "refused" && <p class="hint" role="alert">The browser does not permit the page to copy the command. It is selected: copy it with the keyboard.</p>}
    </>
  );
}

export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{props.title}</h2>
      {props.children}
    </div>
  );
}

/** The ways to connect switches. */
export function NoSwitches() {
  const { hostname } = location;
  const commands = connectCommands(hostname);
  return (
    <Empty title="No switch is connected">
      <p>Connect one in one of these ways. The port is {OPENFLOW_PORT}, unless <code>listen</code> in the configuration of the controller says otherwise.</p>
      <h3>Emulated switches and hosts</h3>
      <p class="hint">They need no privileges and no other software.</p>
      <Command text={commands.emulation} />
      <h3>Mininet</h3>
      <Command text={commands.mininet} />
      <p class="hint">On a machine whose kernel has no module for Open vSwitch: <code>--switch=ovs,datapath=user,protocols=OpenFlow13</code></p>
      <h3>A bridge of Open vSwitch that exists already</h3>
      <Command text={commands.openVswitch} />
      <h3>A hardware switch</h3>
      <p>
        Set its controller to {isLoopback(hostname) ? "the IP address of this machine" : <code>{controllerAddress(hostname)}</code>}, TCP port {OPENFLOW_PORT}. It may use OpenFlow 1.0 to 1.5.
      </p>
    </Empty>
  );
}

/** A field with its label above. */
export function Field(props: { label: string; hint?: ComponentChildren; children: JSX.Element; id: string; class?: string }) {
  return (
    <div class={`field ${props.class ?? ""}`}>
      <label for={props.id}>{props.label}</label>
      {props.children}
      {props.hint && <p class="hint">{props.hint}</p>}
    </div>
  );
}

/** A line of recent values. */
export function Sparkline(props: { values: number[]; label: string }) {
  const [width, height] = [96, 22];
  const most = Math.max(1, ...props.values);
  const step = props.values.length > 1 ? width / (props.values.length - 1) : width;
  const points = props.values.map((value, at) => `${(at * step).toFixed(1)},${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`);
  return (
    <svg class="sparkline" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={props.label}>
      {points.length > 1 && <polyline points={points.join(" ")} />}
    </svg>
  );
}
