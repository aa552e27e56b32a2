/** One switch: what it is, its ports, its flow table. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, change, describe, get, segment } from "../api";
import type { Flow, PortDocument, StaticEntry, SwitchDocument } from "../documents";
import { FlowEditor } from "../editor/editor";
import { age, bits, bytes, clean, count, countOf, load, shortDpid, time, total } from "../format";
import { useDocument, useTitle } from "../hooks";
import { Badge, Card, ErrorNote, PlaceLink, Sparkline, Table } from "../parts";
import { withRates } from "../port-rates";
import { href, route } from "../router";
import { useValue } from "../store";
import { switchName } from "../switch-names";

const FLOWS_PER_PAGE = 100;

/** The code of the error that says that a switch is not connected. */
const NOT_CONNECTED = "switch_not_connected";

export function SwitchView() {
  const dpid = useValue(route).path[1] ?? "";
  const { data, error } = useDocument<SwitchDocument>(`/v1/switches/${segment(dpid)}`, 3000);
  const name = data === null ? clean(shortDpid(dpid)) : switchName(data);
  useTitle(`Switch ${name}`);
  if (data === null && isNotConnected(error)) {
    return (
      <>
        <h1>Switch {name}</h1>
        <ErrorNote error={error} />
        <p><a href={href("switches")}>Show the connected switches</a></p>
      </>
    );
  }
  return (
    <>
      <div class="head">
        <h1>Switch {name}</h1>
        <a class="button" href={`${href("map")}?switch=${encodeURIComponent(dpid)}`}>Show on the map</a>
      </div>
      <ErrorNote error={error} />
      {data !== null && <Facts of={data} />}
      <Ports dpid={dpid} />
      <Flows dpid={dpid} name={name} />
    </>
  );
}

function isNotConnected(error: unknown): boolean {
  return error instanceof ApiError && error.code === NOT_CONNECTED;
}

/** An error of a part of the view. That the switch is not connected is shown once, at the top. */
function ofPart(error: unknown): unknown {
  return isNotConnected(error) ? null : error;
}

function Facts(props: { of: SwitchDocument }) {
  const it = props.of;
  const described = it.description;
  return (
    <div class="cards">
      <Card title="Switch">
        <dl class="facts">
          <dt>Datapath id</dt><dd><code>{it.dpid}</code></dd>
          <dt>OpenFlow</dt><dd>{it.openflow}</dd>
          <dt>Address</dt><dd>{it.address}</dd>
          <dt>Connected</dt><dd>for {age(it.connected_at_unix_s)}</dd>
          {it.role !== null && <><dt>Role</dt><dd>{it.role}</dd></>}
          {described && (
            <>
              <dt>Manufacturer</dt><dd>{clean(described.manufacturer, 120)}</dd>
              <dt>Hardware</dt><dd>{clean(described.hardware, 120)}</dd>
              <dt>Software</dt><dd>{clean(described.software, 120)}</dd>
              <dt>Datapath</dt><dd>{clean(described.datapath, 120)}</dd>
            </>
          )}
        </dl>
      </Card>
      <Card title="Session">
        <dl class="facts">
          <dt>Messages</dt><dd>{count(it.session.messages_received)}</dd>
          <dt>Packet-ins</dt><dd>{count(it.session.packet_ins_received)}</dd>
          <dt>Errors</dt><dd>{count(it.session.errors_received)}</dd>
          <dt>Backlog</dt><dd>{bytes(it.session.backlog_bytes)}</dd>
        </dl>
        {it.last_errors.length > 0 && (
          <>
            <h3>Last errors of the switch</h3>
            <ul class="steps">
              {[...it.last_errors].reverse().map((one, at) => (
                <li key={at}>{time(one.at_unix_s)} <code>{one.error}</code>{one.request && ` to ${one.request}`}</li>
              ))}
            </ul>
          </>
        )}
      </Card>
    </div>
  );
}

/** Bits per second of each port, the newest last. */
function useRates(ports: PortDocument[] | null): Map<number, number[]> {
  const rates = useRef(new Map<number, number[]>());
  return useMemo(() => {
    rates.current = withRates(rates.current, ports ?? []);
    return rates.current;
  }, [ports]);
}

function Ports(props: { dpid: string }) {
  const { dpid } = props;
  const { data, error, reload } = useDocument<{ ports: PortDocument[] }>(`/v1/switches/${segment(dpid)}/ports`, 2000);
  const ports = data?.ports ?? null;
  const rates = useRates(ports);
  const [failure, setFailure] = useState<unknown>(null);
  const set = async (port: number, isEnabled: boolean): Promise<void> => {
    if (!isEnabled && !confirm(`Disable port ${port}? Whatever uses it loses its connection.`)) return;
    try {
      await change("PUT", `/v1/switches/${segment(dpid)}/ports/${port}`, { is_enabled: isEnabled });
      setFailure(null);
      reload();
    } catch (problem) {
      setFailure(problem);
    }
  };
  return (
    <Card title="Ports">
      <ErrorNote error={ofPart(error) ?? failure} />
      {ports === null ? <p class="hint">Reading…</p> : (
        <Table label="Ports" head={[["Port", "number"], "Name", "State", "Connected to", ["Speed", "number"], ["Received", "number"], ["Sent", "number"], "Last minute", ["Errors", "number"], ["Dropped", "number"], "Action"]}>
          {ports.map((port) => (
            <tr key={port.port}>
              <td class="number">{port.port}</td>
              <td>{clean(port.name)}</td>
              <td><Badge tone={port.is_up ? "good" : port.is_enabled ? "bad" : "warn"}>{port.is_up ? "up" : port.is_enabled ? "no link" : "disabled"}</Badge></td>
              <td>{port.peer ? <PlaceLink place={port.peer} /> : port.hosts > 0 ? countOf(port.hosts, "host") : port.is_up ? port.role : "–"}</td>
              <td class="number">{bits(port.speed_bits_per_s)}</td>
              <td class="number">{load(port.rates?.["rx_bits_per_s"], port.speed_bits_per_s)}</td>
              <td class="number">{load(port.rates?.["tx_bits_per_s"], port.speed_bits_per_s)}</td>
              <td><Sparkline values={rates.get(port.port) ?? []} label={`Traffic of port ${port.port} in the last minute`} /></td>
              <td class="number">{count(total(port.statistics?.["rx_errors"], port.statistics?.["tx_errors"]))}</td>
              <td class="number">{count(total(port.statistics?.["rx_dropped"], port.statistics?.["tx_dropped"]))}</td>
              <td>
                <button type="button" class="small" onClick={() => void set(port.port, !port.is_enabled)} aria-label={`${port.is_enabled ? "Disable" : "Enable"} port ${port.port}`}>
                  {port.is_enabled ? "Disable" : "Enable"}
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

function ownerOf(flow: Flow): string {
  return flow.static_entry !== null ? `static: ${clean(flow.static_entry)}` : (flow.owner ?? "foreign");
}

function Flows(props: { dpid: string; name: string }) {
  const { dpid, name } = props;
  const [text, setText] = useState("");
  const [owner, setOwner] = useState("");
  const [isLive, setIsLive] = useState(true);
  const [isJson, setIsJson] = useState(false);
  const [isAdding, setIsAdding] = useState(false);
  const [shown, setShown] = useState(FLOWS_PER_PAGE);
  const [message, setMessage] = useState<{ isBad: boolean; text: string } | null>(null);
  const { data, error, reload } = useDocument<{ flows: Flow[]; total: number }>(`/v1/switches/${segment(dpid)}/flows?limit=2000`, isLive ? 3000 : undefined);
  const flows = data?.flows ?? [];
  const owners = useMemo(() => [...new Set(flows.map((flow) => flow.owner ?? "foreign"))].sort(), [flows]);
  const wanted = text.trim().toLowerCase();
  const found = flows.filter((flow) => (owner === "" || (flow.owner ?? "foreign") === owner) && `${flow.text} ${ownerOf(flow)}`.toLowerCase().includes(wanted));
  useEffect(() => setShown(FLOWS_PER_PAGE), [wanted, owner]);
  const remove = async (entry: string): Promise<void> => {
    const path = `/v1/static/flows/${segment(entry)}`;
    try {
      const { revision } = await get<StaticEntry>(path);
      if (!confirm(`Remove the static entry ${clean(entry)} from all its switches?`)) return;
      await change("DELETE", `${path}?wait=true&if_revision=${revision}`);
      setMessage({ isBad: false, text: `The static entry ${clean(entry)} was removed.` });
      reload();
    } catch (problem) {
      setMessage({ isBad: true, text: describe(problem) });
    }
  };
  return (
    <Card
      title="Flow table"
      actions={<button type="button" class="primary" aria-expanded={isAdding} onClick={() => setIsAdding(!isAdding)}>Add an entry</button>}
    >
      {isAdding && (
        <FlowEditor
          switches={[dpid]}
          onDone={(entry) => {
            setIsAdding(false);
            setMessage({ isBad: entry.state === "refused", text: entry.state === "refused" ? `${clean(entry.name)} is refused: ${clean(entry.reason ?? "", 200)}` : `${clean(entry.name)} is ${entry.state}.` });
            reload();
          }}
          onCancel={() => setIsAdding(false)}
        />
      )}
      {message && <p class={`note ${message.isBad ? "bad" : "good"}`} role={message.isBad ? "alert" : "status"}>{message.text}</p>}
      <div class="row">
        <input type="search" aria-label="Filter flow entries" placeholder="Address, port, action…" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <label>
          Owner{" "}
          <select value={owner} onChange={(event) => setOwner(event.currentTarget.value)}>
            <option value="">all</option>
            {owners.map((one) => <option key={one} value={one}>{one}</option>)}
          </select>
        </label>
        <label class="check"><input type="checkbox" checked={isLive} onChange={(event) => setIsLive(event.currentTarget.checked)} /> Live counters</label>
        <button type="button" aria-pressed={isJson} onClick={() => setIsJson(!isJson)}>JSON</button>
        <span class="hint">{data === null ? "Reading…" : `${count(found.length)} of ${count(data.total)} entries`}</span>
      </div>
      <ErrorNote error={ofPart(error)} />
      {isJson ? <pre tabIndex={0} aria-label={`Flow entries of ${name} as JSON`}>{JSON.stringify(found.slice(0, shown), null, 2)}</pre> : (
        <Table label={`Flow entries of ${name}`} head={[["Table", "number"], ["Priority", "number"], "Entry", "Owner", ["Packets", "number"], ["Bytes", "number"], "Age", "Action"]}>
          {found.slice(0, shown).map((flow) => (
            <tr key={`${flow.table_id} ${flow.text}`}>
              <td class="number">{flow.table_id}</td>
              <td class="number">{flow.priority}</td>
              <td class="long"><code>{flow.text.replace(/^(cookie=[^,]*,)?/, "").replace(/priority=\d+,/, "")}</code></td>
              <td>{flow.static_entry !== null ? <a href={href("entry", flow.static_entry)}>{ownerOf(flow)}</a> : ownerOf(flow)}</td>
              <td class="number">{count(flow.stats?.packet_count)}</td>
              <td class="number">{bytes(flow.stats?.byte_count)}</td>
              <td>{flow.stats?.duration ? age(0, flow.stats.duration.sec * 1000) : "–"}</td>
              <td>{flow.static_entry !== null && <button type="button" class="small danger" onClick={() => void remove(flow.static_entry as string)} aria-label={`Remove ${clean(flow.static_entry)}`}>Remove</button>}</td>
            </tr>
          ))}
        </Table>
      )}
      {found.length > shown && <button type="button" onClick={() => setShown(shown + FLOWS_PER_PAGE)}>Show more</button>}
    </Card>
  );
}
