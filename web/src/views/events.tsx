/** The time line of events. */
import { useState } from "preact/hooks";
import { countOf, time } from "../format";
import { useTitle } from "../hooks";
import { events } from "../live";
import { Badge, Card, Empty } from "../parts";
import { useValue } from "../store";
import { addedSince, eventText } from "../timeline";
import type { EventDocument } from "../documents";

const GROUPS: Record<string, RegExp> = {
  switches: /^switch-/,
  ports: /^port-/,
  links: /^(link-|paths-)/,
  hosts: /^host-/,
  conflicts: /^address-conflict/,
  policy: /^(policy-|configuration-)/,
};

const SHOWN = 200;

function tone(kind: string): "good" | "bad" | "warn" | "plain" {
  if (/(down|disconnected|blocked|conflict|refused|quarantined|lost)$/.test(kind)) return "bad";
  if (/(up|connected|released|applied)$/.test(kind)) return "good";
  return "plain";
}

export function EventsView() {
  useTitle("Events");
  const all = useValue(events);
  const [group, setGroup] = useState("");
  const [text, setText] = useState("");
  const [paused, setPaused] = useState<readonly EventDocument[] | null>(null);
  const [shown, setShown] = useState(SHOWN);
  const wanted = text.trim().toLowerCase();
  const added = paused === null ? 0 : addedSince(paused, all);
  const found = (paused ?? all).filter((event) => (group === "" || GROUPS[group]?.test(event.kind)) && `${event.kind} ${event.text} ${eventText(event)}`.toLowerCase().includes(wanted));
  return (
    <>
      <h1>Events</h1>
      <div class="row">
        <label>
          Kind{" "}
          <select value={group} onChange={(event) => setGroup(event.currentTarget.value)}>
            <option value="">all</option>
            {Object.keys(GROUPS).map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
        <input type="search" aria-label="Filter events" placeholder="Switch, port, address" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <button type="button" aria-pressed={paused !== null} onClick={() => setPaused(paused === null ? all : null)}>Pause</button>
        <span class="hint" role="status">{countOf(found.length, "event")}{added > 0 && `, ${added} new`}</span>
      </div>
      {found.length === 0 ? <Empty title={all.length === 0 ? "No events yet" : "No event matches the filter"} /> : (
        <Card>
          <ol class="timeline">
            {[...found].reverse().slice(0, shown).map((event) => (
              <li key={event.id}>
                <time dateTime={new Date(event.at_unix_s * 1000).toISOString()}>{time(event.at_unix_s)}</time>
                <span><Badge tone={tone(event.kind)}>{event.kind}</Badge></span>
                <span>{eventText(event)}</span>
              </li>
            ))}
          </ol>
          {found.length > shown && <div class="row"><button type="button" onClick={() => setShown(shown + SHOWN)}>Show more</button></div>}
        </Card>
      )}
    </>
  );
}
