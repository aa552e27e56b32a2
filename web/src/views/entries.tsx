/** Static entries: the list, and one of them. */
import { useState } from "preact/hooks";
import { storeText } from "../alarms";
import { ApiError, change, describe, segment } from "../api";
import type { StaticEntry } from "../documents";
import { FlowEditor, selectorOf } from "../editor/editor";
import { clean, time } from "../format";
import { useDocument, useTitle } from "../hooks";
import { refresh, storeError } from "../live";
import { Badge, Card, Command, Empty, ErrorNote, SwitchLink, Table } from "../parts";
import { go, href, route } from "../router";
import { useValue } from "../store";

function tone(state: string): "good" | "bad" | "warn" {
  return state === "installed" ? "good" : state === "refused" ? "bad" : "warn";
}

export function EntriesView() {
  useTitle("Static entries");
  const { data, error } = useDocument<{ entries: StaticEntry[]; total: number }>("/v1/static/flows", 5000);
  const [isAdding, setIsAdding] = useState(false);
  const ofStore = useValue(storeError);
  // The answer of the API has the same reason.
  const isExplained = ofStore !== null && error instanceof ApiError && error.code === "store_unavailable";
  return (
    <>
      <div class="head">
        <h1>Static entries</h1>
        <button type="button" class="primary" aria-expanded={isAdding} onClick={() => setIsAdding(!isAdding)}>Add an entry</button>
      </div>
      {isAdding && <FlowEditor switches={["all"]} onDone={(entry) => go(href("entry", entry.name))} onCancel={() => setIsAdding(false)} />}
      {ofStore !== null && <p class="note bad" role="alert">{storeText(ofStore)}</p>}
      <ErrorNote error={isExplained ? null : error} />
      {data !== null && data.entries.length === 0 && !isAdding && (
        <Empty title="No flow entry is declared">
          <p>A static entry stays in the switches: it is put back when it is removed or modified, and after restarts.</p>
          <Command text="sluice flow add s1 'priority=200,ip,nw_src=10.0.0.3,actions=drop' --name block-h3" />
        </Empty>
      )}
      {data !== null && data.entries.length > 0 && (
        <Card>
          <Table label="Static flow entries" head={["Name", "Switches", "State", "Since", "Entry"]}>
            {data.entries.map((entry) => (
              <tr key={entry.name}>
                <td><a href={href("entry", entry.name)}>{clean(entry.name)}</a></td>
                <td>{clean(selectorOf(entry))}</td>
                <td><Badge tone={tone(entry.state)}>{entry.state}</Badge>{entry.reason && ` ${clean(entry.reason, 120)}`}</td>
                <td>{time(entry.changed_at_unix_s)}</td>
                <td class="long"><code>{entry.flow}</code></td>
              </tr>
            ))}
          </Table>
        </Card>
      )}
    </>
  );
}

export function EntryView() {
  const name = useValue(route).path[1] ?? "";
  useTitle(`Static entry ${clean(name)}`);
  const { data, error, reload } = useDocument<StaticEntry>(`/v1/static/flows/${segment(name)}`, 3000);
  const [edited, setEdited] = useState<StaticEntry | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const remove = async (): Promise<void> => {
    if (data === null || !confirm(`Remove ${clean(name)} from all its switches?`)) return;
    try {
      await change("DELETE", `/v1/static/flows/${segment(name)}?wait=true&if_revision=${data.revision}`);
      refresh();
      go(href("entries"));
    } catch (problem) {
      setFailure(problem);
    }
  };
  const isForeign = edited !== null && data !== null && data.revision !== edited.revision;
  return (
    <>
      <div class="head">
        <h1>Static entry {clean(name)}</h1>
        {data !== null && edited === null && (
          <>
            <button type="button" onClick={() => setEdited(data)}>Change</button>
            <button type="button" class="danger" onClick={() => void remove()}>Remove</button>
          </>
        )}
      </div>
      <ErrorNote error={edited === null ? error : null} />
      {failure !== null && <p class="note bad" role="alert">{describe(failure)}</p>}
      {isForeign && <p class="note warn" role="status">Somebody has changed this entry while you are editing it. When you save, both versions are shown.</p>}
      {edited !== null && (
        <FlowEditor
          entry={edited}
          switches={[]}
          onDone={() => {
            setEdited(null);
            reload();
            refresh();
          }}
          onCancel={() => setEdited(null)}
        />
      )}
      {data !== null && (
        <Card title="Declared">
          <dl class="facts">
            <dt>Switches</dt><dd>{clean(selectorOf(data), 400)}</dd>
            <dt>Entry</dt><dd><code>{data.flow}</code></dd>
            <dt>State</dt><dd><Badge tone={tone(data.state)}>{data.state}</Badge> {data.reason && clean(data.reason, 300)}</dd>
            <dt>Revision</dt><dd>{data.revision}, {time(data.changed_at_unix_s)}</dd>
          </dl>
          {(data.at?.length ?? 0) > 0 && (
            <Table label="State at each switch" head={["Switch", "State", "Reason"]}>
              {(data.at ?? []).slice(0, 500).map((at) => (
                <tr key={at.dpid}>
                  <td><SwitchLink dpid={at.dpid} name={at.switch} /></td>
                  <td><Badge tone={tone(at.state)}>{at.state}</Badge></td>
                  <td>{at.reason ? clean(at.reason, 300) : "–"}</td>
                </tr>
              ))}
            </Table>
          )}
        </Card>
      )}
    </>
  );
}
