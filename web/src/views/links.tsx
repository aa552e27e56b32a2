/** Links between switches: the list, and one of them. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { change, segment } from "../api";
import type { Drain, MapLink, PortDocument, Topology } from "../documents";
import { bits, bytes, clean, count, load, time, total } from "../format";
import { useDocument, useTitle } from "../hooks";
import { lookAtLoads, refresh, topology } from "../live";
import { Badge, Card, Empty, ErrorNote, NoSwitches, PlaceLink, Table } from "../parts";
import { href, route } from "../router";
import { useValue } from "../store";
import { switchName } from "../switch-names";

const ROWS_MAX = 500;
/** The code of the error that says that a link is in service. */
const IN_SERVICE = "not_drained";

export function LinksView() {
  useTitle("Links");
  useEffect(lookAtLoads, []);
  const network = useValue(topology);
  const [text, setText] = useState("");
  const rows = useMemo(() => linkRows(network, text), [network, text]);
  if (network === null) return <h1>Links</h1>;
  return (
    <>
      <div class="head">
        <h1>Links</h1>
        <input type="search" aria-label="Filter links" placeholder="Switch" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </div>
      {network.switches.length === 0 ? <NoSwitches /> : network.links.length === 0 ? (
        <Empty title="No link between switches is known"><p>Links are found by probes a moment after their switches have connected.</p></Empty>
      ) : (
        <Card>
          <Table label="Links, the busiest first" head={["From", "To", ["Load", "number"], "State"]}>
            {rows.slice(0, ROWS_MAX).map(({ link, from, to }) => (
              <tr key={`${from.dpid}/${link.from_port}`}>
                <td><a href={href("link", from.dpid, link.from_port)}>{switchName(from)}:{link.from_port}</a></td>
                <td>{switchName(to)}:{link.to_port}</td>
                <td class="number">{load(link.bits_per_s, link.speed_bits_per_s)}</td>
                <td>{link.is_drained ? <Badge tone="warn">out of service</Badge> : <Badge tone="good">in service</Badge>}</td>
              </tr>
            ))}
          </Table>
          {rows.length > ROWS_MAX && <p class="hint">The busiest {ROWS_MAX} of {count(rows.length)}.</p>}
        </Card>
      )}
    </>
  );
}

interface LinkRow {
  link: MapLink;
  from: Topology["switches"][number];
  to: Topology["switches"][number];
}

function linkRows(network: Topology | null, text: string): LinkRow[] {
  const wanted = text.trim().toLowerCase();
  const rows = (network?.links ?? []).flatMap((link): LinkRow[] => {
    const [from, to] = [network?.switches[link.from], network?.switches[link.to]];
    return from && to ? [{ link, from, to }] : [];
  });
  const found = rows.filter(({ from, to }) => `${switchName(from)} ${from.dpid} ${switchName(to)} ${to.dpid}`.toLowerCase().includes(wanted));
  return found.sort((a, b) => (b.link.bits_per_s ?? 0) - (a.link.bits_per_s ?? 0));
}

export function LinkView() {
  useEffect(lookAtLoads, []);
  const [, dpid = "", port = ""] = useValue(route).path;
  const base = `/v1/switches/${segment(dpid)}/ports`;
  const ports = useDocument<{ ports: PortDocument[] }>(base, 2000);
  const drain = useDocument<Drain>(`${base}/${segment(port)}/drain`, 2000);
  const here = ports.data?.ports.find((it) => String(it.port) === port);
  const [failure, setFailure] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);
  const name = here?.peer ? `${here.name} – ${here.peer.port_name ?? here.peer.port}` : `port ${port}`;
  useTitle(`Link ${clean(name)}`);
  const set = async (method: "PUT" | "DELETE"): Promise<void> => {
    setIsBusy(true);
    try {
      await change(method, `${base}/${segment(port)}/drain`);
      setFailure(null);
      drain.reload();
      refresh();
    } catch (problem) {
      setFailure(problem);
    } finally {
      setIsBusy(false);
    }
  };
  const isInService = drain.error !== null && (drain.error as { code?: string }).code === IN_SERVICE;
  const state = isInService ? null : drain.data;
  return (
    <>
      <div class="head">
        <h1>Link {clean(name)}</h1>
        {isInService && <button type="button" disabled={isBusy} onClick={() => void set("PUT")}>Take out of service</button>}
        {state !== null && <button type="button" class="primary" disabled={isBusy} onClick={() => void set("DELETE")}>Put back into service</button>}
      </div>
      <ErrorNote error={ports.error ?? failure ?? (isInService ? null : drain.error)} />
      {ports.data !== null && !here && <p class="note bad">The switch has no port {clean(port)}.</p>}
      {here && (
        <Card title="Link">
          <dl class="facts">
            <dt>State</dt>
            <dd>{state === null ? here.peer ? <Badge tone="good">in service</Badge> : <Badge tone="bad">down</Badge> : <Badge tone="warn">{state.state}</Badge>}</dd>
            <dt>Other end</dt><dd><PlaceLink place={here.peer} /></dd>
            <dt>Speed</dt><dd>{bits(here.speed_bits_per_s)}</dd>
            <dt>Sent</dt><dd>{load(here.rates?.["tx_bits_per_s"], here.speed_bits_per_s)}, {bytes(here.statistics?.["tx_bytes"])} in all</dd>
            <dt>Received</dt><dd>{load(here.rates?.["rx_bits_per_s"], here.speed_bits_per_s)}, {bytes(here.statistics?.["rx_bytes"])} in all</dd>
            <dt>Errors</dt><dd>{count(total(here.statistics?.["rx_errors"], here.statistics?.["tx_errors"]))}</dd>
            <dt>Dropped</dt><dd>{count(total(here.statistics?.["rx_dropped"], here.statistics?.["tx_dropped"]))}</dd>
          </dl>
        </Card>
      )}
      {state !== null && <DrainProgress of={state} />}
    </>
  );
}

function DrainProgress(props: { of: Drain }) {
  const it = props.of;
  return (
    <Card title="Out of service">
      <p>
        Requested at {time(it.requested_at_unix_s)}.{" "}
        {it.state === "drained" ? "Nothing uses the link: it may be unplugged." : "Something may still use the link."}
      </p>
      <Table label="What each end still sends" head={["Port", ["Flow entries", "number"], ["Without another path", "number"], ["Foreign", "number"], "Traffic"]}>
        {it.ends.map((end) => (
          <tr key={`${end.at.dpid} ${end.at.port}`}>
            <td><PlaceLink place={end.at} /></td>
            <td class="number">{count(end.progress?.entries)}</td>
            <td class="number">{count(end.progress?.without_alternative)}</td>
            <td class="number">{count(end.progress?.foreign_entries)}</td>
            <td>{end.progress === null ? "not known" : end.progress.is_quiet ? "none" : "yes"}</td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
