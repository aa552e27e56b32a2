/** The connected switches. */
import { useState } from "preact/hooks";
import type { SwitchDocument } from "../documents";
import { age, clean, count } from "../format";
import { useDocument, useTitle } from "../hooks";
import { Empty, ErrorNote, NoSwitches, SwitchLink, Table } from "../parts";
import { switchName } from "../switch-names";

const ROWS_MAX = 500;

export function SwitchesView() {
  useTitle("Switches");
  const [text, setText] = useState("");
  const { data, error } = useDocument<{ switches: SwitchDocument[] }>("/v1/switches", 3000);
  const wanted = text.trim().toLowerCase();
  const found = (data?.switches ?? []).filter((it) => `${switchName(it)} ${it.name ?? ""} ${it.dpid} ${it.address}`.toLowerCase().includes(wanted));
  return (
    <>
      <div class="head">
        <h1>Switches</h1>
        <input type="search" aria-label="Filter switches" placeholder="Name, datapath id, address" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </div>
      <ErrorNote error={error} />
      {data === null ? error === null && <p class="hint">Reading…</p> : data.switches.length === 0 ? <NoSwitches /> : found.length === 0 ? (
        <Empty title="No switch has this name or address" />
      ) : (
        <div class="card">
          <Table label="Switches" head={["Switch", "Datapath id", "OpenFlow", "Address", "Software", "Connected", ["Ports", "number"], ["Packet-ins", "number"], ["Errors", "number"]]}>
            {found.slice(0, ROWS_MAX).map((it) => (
              <tr key={it.dpid}>
                <td><SwitchLink dpid={it.dpid} name={it.name} /></td>
                <td><code>{it.dpid}</code></td>
                <td>{it.openflow}</td>
                <td>{it.address}</td>
                <td>{it.description ? clean(`${it.description.hardware} ${it.description.software}`) : "–"}</td>
                <td>{age(it.connected_at_unix_s)}</td>
                <td class="number">{it.ports}</td>
                <td class="number">{count(it.session.packet_ins_received)}</td>
                <td class="number">{count(it.session.errors_received)}</td>
              </tr>
            ))}
          </Table>
          {found.length > ROWS_MAX && <p class="hint">The first {ROWS_MAX} of {found.length}: enter a part of a name to find others.</p>}
        </div>
      )}
    </>
  );
}
