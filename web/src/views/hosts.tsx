/** Hosts: the list, and one of them with paths and quarantine. */
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { ApiError, change, get, segment } from "../api";
import type { Host, PathsDocument, Quarantine } from "../documents";
import { clean, count, countOf, hostId, hostName, mainAddress, time } from "../format";
import { useDocument, useSettled, useTitle } from "../hooks";
import { Badge, Card, Command, Empty, ErrorNote, Field, PlaceLink, Table } from "../parts";
import { hostHref, href, route } from "../router";
import { useValue } from "../store";
import { placeName } from "../switch-names";

const PAGE = 200;

/** The filter of the API that a text is meant for. */
function query(text: string): string {
  const wanted = text.trim();
  if (/^([0-9a-f]{1,2}:){5}[0-9a-f]{1,2}$/i.test(wanted)) return `mac=${encodeURIComponent(wanted)}`;
  if (/^[0-9]{1,3}(\.[0-9]{1,3}){3}$/.test(wanted) || /^[0-9a-f:]*:[0-9a-f:]+$/i.test(wanted)) return `ip=${encodeURIComponent(wanted)}`;
  return wanted === "" ? "" : `switch=${encodeURIComponent(wanted)}`;
}

export function HostsView() {
  useTitle("Hosts");
  const [text, setText] = useState("");
  const [offset, setOffset] = useState(0);
  const filter = query(useSettled(text));
  const { data, error } = useDocument<{ hosts: Host[]; total: number }>(`/v1/hosts?limit=${PAGE}&offset=${offset}${filter && `&${filter}`}`, 4000);
  const notFound = error instanceof ApiError && (error.status === 404 || error.status === 400);
  return (
    <>
      <div class="head">
        <h1>Hosts</h1>
        <input
          type="search"
          aria-label="Filter hosts"
          placeholder="IP address, Ethernet address, switch"
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setOffset(0);
          }}
        />
      </div>
      {!notFound && <ErrorNote error={error} />}
      {(notFound || data?.total === 0) && (text === "" ? (
        <Empty title="No host is known">
          <p>A host is known when it has sent a packet. In Mininet:</p>
          <Command text="mininet> pingall" />
        </Empty>
      ) : <Empty title="No host has this address, and no switch has this name" />)}
      {data !== null && data.hosts.length > 0 && (
        <Card>
          <Table label="Hosts" head={["Ethernet address", "Name", "IP addresses", "VLAN", "At", "State"]}>
            {data.hosts.map((host) => (
              <tr key={`${host.mac} ${host.vlan}`}>
                <td><a href={hostHref(host)}><code>{host.mac}</code></a></td>
                <td>{host.name === null ? "–" : clean(host.name)}</td>
                <td>{host.addresses.join(", ") || "–"}</td>
                <td>{host.vlan === 0 ? "–" : host.vlan}</td>
                <td><PlaceLink place={host.at} /></td>
                <td>{host.is_quarantined && <Badge tone="bad">quarantine</Badge>}</td>
              </tr>
            ))}
          </Table>
          <div class="row">
            <span class="hint">{offset + 1} to {offset + data.hosts.length} of {count(data.total)}</span>
            <button type="button" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>Previous</button>
            <button type="button" disabled={offset + PAGE >= data.total} onClick={() => setOffset(offset + PAGE)}>Next</button>
          </div>
        </Card>
      )}
    </>
  );
}

function vlanName(host: Host): string {
  return host.vlan === 0 ? "untagged" : String(host.vlan);
}

export function HostView() {
  const [, mac = "", vlan] = useValue(route).path;
  const { data, error, reload } = useDocument<{ hosts: Host[] }>(`/v1/hosts?mac=${encodeURIComponent(mac)}`, 3000);
  const hosts = data?.hosts ?? [];
  const host = (vlan === undefined ? hosts[0] : hosts.find((it) => String(it.vlan) === vlan)) ?? null;
  const others = hosts.filter((it) => it !== host);
  const title = host === null ? clean(mac) : hostName(host);
  useTitle(`Host ${title}`);
  return (
    <>
      <div class="head">
        <h1>Host {title}</h1>
        {host && <a class="button" href={`${href("trace")}?from=${encodeURIComponent(mainAddress(host.addresses) ?? mac)}`}>Trace from here</a>}
      </div>
      <ErrorNote error={error} />
      {data !== null && host === null && (
        <p class="note warn">The host {clean(mac)} is not known: it has sent nothing for a while, or nothing yet.</p>
      )}
      <div class="cards">
        {host && (
          <Card title="Host">
            <dl class="facts">
              <dt>Ethernet</dt><dd><code>{host.mac}</code></dd>
              <dt>IP addresses</dt><dd>{host.addresses.join(", ") || "–"}</dd>
              <dt>VLAN</dt><dd>{vlanName(host)}</dd>
              {others.length > 0 && <><dt>Also in VLAN</dt><dd>{others.map((it) => <Fragment key={it.vlan}><a href={hostHref(it)}>{vlanName(it)}</a> </Fragment>)}</dd></>}
              <dt>At</dt><dd><a href={href("switch", host.at.dpid)}>{placeName(host.at)}</a> {host.at.port_name && `(${clean(host.at.port_name)})`}</dd>
            </dl>
          </Card>
        )}
        <QuarantineCard mac={mac} isQuarantined={host?.is_quarantined ?? false} onChange={reload} />
      </div>
      {host && <Paths from={host} />}
    </>
  );
}

function QuarantineCard(props: { mac: string; isQuarantined: boolean; onChange: () => void }) {
  const { mac, isQuarantined, onChange } = props;
  const path = `/v1/hosts/${segment(mac)}/quarantine`;
  const { data } = useDocument<Quarantine>(isQuarantined ? path : null, 3000);
  const [reason, setReason] = useState("");
  const [failure, setFailure] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);
  const act = async (method: "POST" | "DELETE", body?: unknown): Promise<void> => {
    setIsBusy(true);
    try {
      await change(method, `${path}?wait=true`, body);
      setFailure(null);
      setReason("");
      onChange();
    } catch (problem) {
      setFailure(problem);
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <Card title="Quarantine">
      <ErrorNote error={failure} />
      {isQuarantined ? (
        <>
          {data && (
            <dl class="facts">
              <dt>State</dt><dd><Badge tone={data.state === "installed" ? "bad" : "warn"}>{data.state}</Badge> {data.state_reason && clean(data.state_reason, 200)}</dd>
              <dt>Since</dt><dd>{time(data.since_unix_s)}, by {clean(data.by)}</dd>
              <dt>Reason</dt><dd>{data.reason ? clean(data.reason, 256) : "–"}</dd>
            </dl>
          )}
          <button type="button" class="primary" disabled={isBusy} onClick={() => void act("DELETE")}>Release</button>
        </>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void act("POST", reason.trim() === "" ? {} : { reason: reason.trim() });
          }}
        >
          <Field label="Reason" id="quarantine-reason" hint="Every switch drops all packets from and to the host until it is released.">
            <input id="quarantine-reason" maxLength={256} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
          </Field>
          <div class="row"><button type="submit" class="danger" disabled={isBusy}>Put into quarantine</button></div>
        </form>
      )}
    </Card>
  );
}

function Paths(props: { from: Host }) {
  const { from } = props;
  const [to, setTo] = useState("");
  const [found, setFound] = useState<PathsDocument | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const find = async (): Promise<void> => {
    try {
      setFound(await get<PathsDocument>(`/v1/paths?from=${encodeURIComponent(from.mac)}&to=${encodeURIComponent(to.trim())}`));
      setFailure(null);
    } catch (problem) {
      setFailure(problem);
    }
  };
  const path = found ? (found.installed.path.length > 0 ? found.installed.path : (found.computed.paths[0] ?? [])) : [];
  const ids = found ? [hostId(found.from), ...path.map((hop) => hop.dpid), hostId(found.to)] : [];
  return (
    <Card title="Path to another host">
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void find();
        }}
      >
        <label for="path-to">To</label>
        <input id="path-to" required placeholder="10.0.0.2" value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        <button type="submit" class="primary">Find</button>
      </form>
      <ErrorNote error={failure} />
      {found && (
        <>
          <p>
            Installed: <Badge tone={found.installed.outcome === "delivered" ? "good" : "warn"}>{found.installed.outcome}</Badge> {clean(found.installed.summary, 200)}
          </p>
          <p>Shortest paths: {found.computed.paths.length}{found.computed.is_truncated && " and more"}, over {countOf(found.computed.switches, "switch", "switches")}.</p>
          <ol class="steps">
            {path.map((hop) => (
              <li key={hop.dpid}><PlaceLink place={{ dpid: hop.dpid, switch: hop.switch }} /> from port {hop.in_port} to port {hop.out_port}</li>
            ))}
          </ol>
          <div class="row">
            <a class="button" href={`${href("map")}?path=${encodeURIComponent(ids.join(","))}`}>Show on the map</a>
            <a class="button" href={`${href("trace")}?from=${encodeURIComponent(mainAddress(from.addresses) ?? from.mac)}&to=${encodeURIComponent(to.trim())}`}>Trace a packet</a>
          </div>
        </>
      )}
    </Card>
  );
}
