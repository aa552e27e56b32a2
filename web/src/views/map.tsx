/** The map of the network. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { alarms as findAlarms, areSame, type Alarm } from "../alarms";
import type { Host, Topology } from "../documents";
import { bits, clean, count, countOf, hostId, hostName, load, LOAD_LABELS, shortDpid } from "../format";
import { useDocument, useTitle } from "../hooks";
import { LAYOUTS, type LayoutName } from "../layout";
import { arrange, covers, placement } from "../layout/placement";
import { connection, events, hostsVersion, lookAtLoads, quarantines, refused, storeError, topology } from "../live";
import { MapCanvas, type Selection } from "../map/canvas";
import { handleKey } from "../map/keys";
import { mapModel, type Edge, type MapModel } from "../map/model";
import { Badge, Empty, NoSwitches, PlaceLink, SwitchLink, Table } from "../parts";
import { go, hostHref, href, route } from "../router";
import { useValue, Value } from "../store";
import { placeName, switchName } from "../switch-names";
import { themeVersion } from "../theme";

const NO_HOSTS: Host[] = [];
const NOTHING: Topology = { is_complete: false, switches: [], links: [], blocked_ports: [], benches: 0 };

/** What was chosen stays while other views are shown, or no switch is connected for a moment. */
const chosen = { isList: new Value(false), showsHosts: new Value(false) };

/** Time between two readings of the hosts while they change, and while they do not. */
const HOSTS_PAUSE_MS = 5000;
const HOSTS_INTERVAL_MS = 60_000;

export function MapView() {
  useTitle("Map");
  const network = useValue(topology);
  const link = useValue(connection);
  useEffect(lookAtLoads, []);
  return (
    <>
      <h1 class="visually-hidden">Map of the network</h1>
      {network === null ? link !== "token" && <Empty title="The network is being read" />
        : network.switches.length === 0 ? <NoSwitches /> : <Network network={network} />}
    </>
  );
}

function Network(props: { network: Topology }) {
  const { network } = props;
  const { query } = useValue(route);
  const path = useMemo(() => query.get("path")?.split(",").filter((id) => id !== "") ?? [], [query]);
  const [name, setName] = useState<LayoutName>(placement.get().name);
  const isList = useValue(chosen.isList);
  const choosesHosts = useValue(chosen.showsHosts);
  // A path begins and ends at hosts.
  const showsHosts = choosesHosts || path.some((id) => id.includes(":"));
  const [selection, setSelection] = useState<Selection>(() => {
    const dpid = query.get("switch");
    return dpid === null ? null : { kind: "switch", id: dpid };
  });
  const hosts = useHosts(showsHosts);
  const happened = useValue(events);
  const rejected = useValue(refused);
  const cutOff = useValue(quarantines);
  const ofStore = useValue(storeError);
  const known = useRef<Alarm[]>([]);
  const alarms = useMemo(() => {
    const found = findAlarms({ storeError: ofStore, topology: network, events: happened, refused: rejected, quarantines: cutOff }, Date.now() / 1000);
    // Most events change no alarm: the map is not drawn again then.
    if (!areSame(found, known.current)) known.current = found;
    return known.current;
  }, [network, happened, rejected, cutOff, ofStore]);
  const placed = useValue(placement);
  useEffect(() => arrange(network, name), [network, name]);
  // Until all of the network is arranged, the map shows the part that is.
  const shown = covers(placed, network) ? network : (placed.network ?? NOTHING);
  const model = useMemo(() => mapModel(shown, placed.points, alarms, hosts), [shown, placed.points, alarms, hosts]);
  const map = useRef<MapCanvas | null>(null);

  const relayout = (): void => {
    map.current?.fitNext();
    arrange(network, name, true);
  };
  const choose = (next: LayoutName): void => {
    map.current?.fitNext();
    setName(next);
  };
  return (
    <div class="map-view">
      <div class="toolbar" role="group" aria-label="Map">
        <Search model={model} onFound={(found) => { setSelection(found); map.current?.centre(found.id); }} />
        <label>
          Layout{" "}
          <select value={name} onChange={(event) => choose(event.currentTarget.value as LayoutName)}>
            {Object.entries(LAYOUTS).map(([key, text]) => <option value={key} key={key}>{text}</option>)}
          </select>
        </label>
        <label class="check">
          <input type="checkbox" checked={showsHosts} onChange={(event) => chosen.showsHosts.set(event.currentTarget.checked)} /> Hosts
        </label>
        <button type="button" aria-pressed={isList} onClick={() => chosen.isList.set(!isList)}>List</button>
        {path.length > 0 && <a class="button" href={href("map")}>Hide path</a>}
        {network.benches > 0 && <p class="running" role="status"><a href={href("charts")}>{network.benches === 1 ? "A bench is running" : `${network.benches} benches are running`}</a></p>}
      </div>
      {isList ? <List network={network} hosts={showsHosts ? hosts : null} alarms={alarms} /> : (
        <Picture model={model} path={path} selection={selection} select={setSelection} mapRef={map} relayout={relayout} />
      )}
      <aside class="map-side" aria-label="Details">
        <Selected selection={selection} model={model} network={network} hosts={hosts} />
        <Alarms alarms={alarms} />
      </aside>
    </div>
  );
}

/** The hosts that the map draws, read again after events that concern hosts. */
function useHosts(isShown: boolean): readonly Host[] {
  const { data, error, reload } = useDocument<{ hosts: Host[] }>(isShown ? "/v1/hosts?limit=10000" : null, HOSTS_INTERVAL_MS);
  const version = useValue(hostsVersion);
  const reading = useRef({ version, isPending: false, endedAt: 0 });
  useEffect(() => {
    reading.current = { ...reading.current, isPending: false, endedAt: Date.now() };
  }, [data, error]);
  useEffect(() => {
    // Another reading would end the one that is pending: hosts that change often would never be shown.
    if (!isShown || version === reading.current.version || reading.current.isPending) return undefined;
    const timer = setTimeout(() => {
      reading.current = { version, isPending: true, endedAt: 0 };
      reload();
    }, Math.max(0, reading.current.endedAt + HOSTS_PAUSE_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [isShown, version, data, error, reload]);
  return data?.hosts ?? NO_HOSTS;
}

function Picture(props: {
  model: MapModel;
  path: string[];
  selection: Selection;
  select: (selection: Selection) => void;
  mapRef: { current: MapCanvas | null };
  relayout: () => void;
}) {
  const { model, path, selection, select, mapRef, relayout } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = useValue(themeVersion);
  useEffect(() => {
    if (canvas.current === null) return undefined;
    const map = new MapCanvas(canvas.current, { select, open });
    mapRef.current = map;
    return () => {
      mapRef.current = null;
      map.destroy();
    };
  }, []);
  useEffect(() => mapRef.current?.show(model), [model]);
  useEffect(() => mapRef.current?.select(selection), [selection]);
  useEffect(() => mapRef.current?.showPath(path), [path]);
  useEffect(() => mapRef.current?.updateTheme(), [colours]);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (mapRef.current !== null && handleKey(event, mapRef.current, selection, { select, open })) event.preventDefault();
  };
  const selected = model.nodes.find((node) => node.id === selection?.id);
  return (
    <div class="picture">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`Map of ${countOf(model.nodes.length, "switch", "switches")} and ${countOf(model.edges.length, "cable")}. Arrow keys select a switch, Enter opens it, plus and minus zoom, Shift with arrow keys moves the map, 0 shows all. The button List shows the same as tables.`}
        onKeyDown={onKeyDown}
      />
      <p class="visually-hidden" aria-live="polite">{selected ? `${selected.label}, ${countOf(selected.hosts, "host")}, ${countOf(selected.alarms, "alarm")}` : ""}</p>
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" onClick={() => mapRef.current?.zoom(1.4)}>+</button>
        <button type="button" aria-label="Zoom out" onClick={() => mapRef.current?.zoom(1 / 1.4)}>−</button>
        <button type="button" aria-label="Show all" title="Show all" onClick={() => mapRef.current?.fit()}>⤢</button>
        <button type="button" aria-label="Arrange again" title="Arrange again" onClick={relayout}>↻</button>
      </div>
      <Legend edges={model.edges} onResize={(height) => mapRef.current?.keepFree(height)} />
    </div>
  );
}

function open(selection: NonNullable<Selection>): void {
  if (selection.kind === "link") go(href("link", ...selection.id.split("/")));
  else if (selection.kind === "host") go(href("host", ...selection.id.split(" ")));
  else go(href(selection.kind, selection.id));
}

/** Whether widths and colours of links are shares of their speed, rates, or some of them one and some the other. */
function loadLabels(edges: readonly Edge[]): string[] {
  const known = edges.filter((edge) => edge.speed !== null).length;
  if (known === 0) return LOAD_LABELS.rates;
  if (known === edges.length) return LOAD_LABELS.shares;
  return LOAD_LABELS.shares.map((share, at) => `${share} or ${LOAD_LABELS.rates[at]?.replace("≥ ", "")}`);
}

function Legend(props: { edges: readonly Edge[]; onResize: (height: number) => void }) {
  const { edges, onResize } = props;
  const list = useRef<HTMLUListElement>(null);
  const labels = useMemo(() => loadLabels(edges), [edges]);
  useEffect(() => {
    const element = list.current;
    if (element === null) return undefined;
    // On a phone it is below the map, and not on it.
    const resizer = new ResizeObserver(() => onResize(getComputedStyle(element).position === "static" ? 0 : element.offsetHeight));
    resizer.observe(element);
    return () => resizer.disconnect();
  }, []);
  return (
    <ul class="legend" aria-label="Load of a link" ref={list}>
      {labels.map((label, at) => (
        <li key={label}>
          <svg width="22" height="8" aria-hidden="true"><line x1="1" x2="21" y1="4" y2="4" class={`load-${at}`} /></svg> {label}
        </li>
      ))}
      <li><svg width="22" height="8" aria-hidden="true"><line x1="1" x2="21" y1="4" y2="4" class="load-0 drained" /></svg> drained</li>
    </ul>
  );
}

function Search(props: { model: MapModel; onFound: (found: NonNullable<Selection>) => void }) {
  const [text, setText] = useState("");
  const found = useMemo(() => matches(props.model, text), [props.model, text]);
  const choose = (selection: NonNullable<Selection>): void => {
    setText("");
    props.onFound(selection);
  };
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        if (found[0]) choose(found[0].selection);
      }}
    >
      <input
        type="search"
        aria-label="Find a switch or a host"
        placeholder="Find a switch or a host"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {text !== "" && (
        <ul class="found">
          {found.map((it) => (
            <li key={it.selection.id}><button type="button" onClick={() => choose(it.selection)}>{it.label}</button></li>
          ))}
          {found.length === 0 && <li class="hint">Nothing found. Hosts are found only while they are shown.</li>}
        </ul>
      )}
    </form>
  );
}

function matches(model: MapModel, text: string): { label: string; selection: NonNullable<Selection> }[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  const nodes = model.nodes.filter((node) => node.label.toLowerCase().includes(wanted) || node.id.includes(wanted));
  const hosts = model.hosts.filter((host) => host.label.toLowerCase().includes(wanted) || host.id.includes(wanted));
  return [
    ...nodes.slice(0, 8).map((node) => ({ label: `Switch ${node.label}`, selection: { kind: "switch" as const, id: node.id } })),
    ...hosts.slice(0, 8).map((host) => ({ label: `Host ${host.label}`, selection: { kind: "host" as const, id: host.id } })),
  ];
}

function Selected(props: { selection: Selection; model: MapModel; network: Topology; hosts: readonly Host[] }) {
  const { selection, model, network, hosts } = props;
  if (selection === null) {
    const total = network.switches.reduce((sum, it) => sum + it.hosts, 0);
    return (
      <div class="card">
        <dl class="facts">
          <dt>Switches</dt><dd>{count(model.nodes.length)}</dd>
          <dt>Cables</dt><dd>{count(model.edges.length)}</dd>
          <dt>Hosts</dt><dd>{count(total)}</dd>
        </dl>
        <p class="hint">Select a switch, a link or a host for more.</p>
      </div>
    );
  }
  if (selection.kind === "switch") {
    const node = model.nodes.find((it) => it.id === selection.id);
    if (!node) return <div class="card"><p>Switch {clean(shortDpid(selection.id))} is not connected.</p></div>;
    return (
      <div class="card">
        <h2>{node.label}</h2>
        <dl class="facts">
          <dt>Datapath id</dt><dd><code>{node.id}</code></dd>
          <dt>Hosts</dt><dd>{node.hosts}</dd>
          <dt>Cables</dt><dd>{model.edges.filter((it) => model.nodes[it.a] === node || model.nodes[it.b] === node).length}</dd>
        </dl>
        <a class="button primary" href={href("switch", node.id)}>Ports and flow table</a>
      </div>
    );
  }
  if (selection.kind === "host") {
    const host = hosts.find((it) => hostId(it) === selection.id);
    if (!host) return <div class="card"><p>Host {selection.id} is not known any more.</p></div>;
    return (
      <div class="card">
        <h2>{hostName(host)}</h2>
        <dl class="facts">
          <dt>Address</dt><dd><code>{host.mac}</code></dd>
          <dt>At</dt><dd>{placeName(host.at)}</dd>
        </dl>
        <a class="button primary" href={hostHref(host)}>Host</a>
      </div>
    );
  }
  const edge = model.edges.find((it) => it.id === selection.id);
  if (!edge) return <div class="card"><p>The link is down.</p></div>;
  return (
    <div class="card">
      <h2>{model.nodes[edge.a]?.label}:{edge.port} – {model.nodes[edge.b]?.label}:{edge.portB}</h2>
      <dl class="facts">
        <dt>Load</dt><dd>{load(edge.bitsPerS, edge.speed)}</dd>
        <dt>Speed</dt><dd>{bits(edge.speed)}</dd>
        <dt>State</dt><dd>{edge.isDrained ? "out of service" : "in service"}</dd>
      </dl>
      <a class="button primary" href={href("link", ...edge.id.split("/"))}>Link</a>
    </div>
  );
}

const ALARMS_SHOWN = 50;

function Alarms(props: { alarms: Alarm[] }) {
  const { alarms } = props;
  return (
    <div class="card">
      <h2>Alarms {alarms.length > 0 && <Badge tone="bad">{alarms.length}</Badge>}</h2>
      {alarms.length === 0 ? <p class="hint">None.</p> : (
        <ul class="alarms">
          {alarms.slice(0, ALARMS_SHOWN).map((alarm, at) => (
            <li key={at} class={alarm.kind}><a href={alarm.address}>{alarm.text}</a></li>
          ))}
        </ul>
      )}
      {alarms.length > ALARMS_SHOWN && <p class="hint">and {alarms.length - ALARMS_SHOWN} more</p>}
    </div>
  );
}

const ROWS_SHOWN = 500;

/** All that the map shows, as tables. */
function List(props: { network: Topology; hosts: readonly Host[] | null; alarms: Alarm[] }) {
  const { network, hosts, alarms } = props;
  const at = (place: number) => network.switches[place] ?? { dpid: "", name: null };
  const more = (all: readonly unknown[]) => all.length > ROWS_SHOWN && <p class="hint">The first {ROWS_SHOWN} of {all.length}.</p>;
  return (
    <div class="list">
      <h2>Switches</h2>
      <Table label="Switches" head={["Switch", "Datapath id", ["Hosts", "number"], ["Alarms", "number"]]}>
        {network.switches.slice(0, ROWS_SHOWN).map((it) => (
          <tr key={it.dpid}>
            <td><SwitchLink {...it} /></td><td><code>{it.dpid}</code></td><td class="number">{it.hosts}</td>
            <td class="number">{alarms.filter((alarm) => alarm.dpid === it.dpid).length}</td>
          </tr>
        ))}
      </Table>
      {more(network.switches)}
      <h2>Links</h2>
      <Table label="Links" head={["From", "To", ["Load", "number"], "State"]}>
        {network.links.slice(0, ROWS_SHOWN).map((link) => (
          <tr key={`${link.from} ${link.from_port}`}>
            <td><a href={href("link", at(link.from).dpid, link.from_port)}>{switchName(at(link.from))}:{link.from_port}</a></td>
            <td>{switchName(at(link.to))}:{link.to_port}</td><td class="number">{load(link.bits_per_s, link.speed_bits_per_s)}</td>
            <td>{link.is_drained ? <Badge tone="warn">out of service</Badge> : "in service"}</td>
          </tr>
        ))}
      </Table>
      {more(network.links)}
      {hosts !== null && (
        <>
          <h2>Hosts</h2>
          <Table label="Hosts" head={["Host", "Addresses", "At"]}>
            {hosts.slice(0, ROWS_SHOWN).map((host) => (
              <tr key={`${host.mac} ${host.vlan}`}>
                <td><a href={hostHref(host)}>{host.mac}</a></td><td>{host.addresses.join(", ")}</td><td><PlaceLink place={host.at} /></td>
              </tr>
            ))}
          </Table>
          {more(hosts)}
        </>
      )}
    </div>
  );
}
