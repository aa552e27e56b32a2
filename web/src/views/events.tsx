/** The time line of events. */
import { useState } from "preact/hooks";
import { clean, placeName, time } from "../format";
import { useTitle } from "../hooks";
import { events } from "../live";
import { Badge, Card, Empty } from "../parts";
import { useValue } from "../store";
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

/** What has happened, without the kind, which has a column of its own. */
function sentence(event: EventDocument): string {
  return clean(event.text.replace(/^[a-z ]+: /, ""), 300);
}

export function EventsView() {
  useTitle("Events");
  const all = useValue(events);
  const [group, setGroup] = useState("");
  const [text, setText] = useState("");
  const [isPaused, setIsPaused] = useState<readonly EventDocument[] | null>(null);
  const [shown, setShown] = useState(SHOWN);
  const wanted = text.trim().toLowerCase();
  const found = (isPaused ?? all).filter((event) => (group === "" || GROUPS[group]?.test(event.kind)) && `${event.kind} ${event.text}`.toLowerCase().includes(wanted));
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
        <button type="button" aria-pressed={isPaused !== null} onClick={() => setIsPaused(isPaused === null ? all : null)}>Pause</button>
        <span class="hint" role="status">{found.length} events{isPaused !== null && all.length > isPaused.length ? `, ${all.length - isPaused.length} new` : ""}</span>
      </div>
      {found.length === 0 ? <Empty title={all.length === 0 ? "Nothing has happened yet" : "No event is like that"} /> : (
        <Card>
          <ol class="timeline">
            {[...found].reverse().slice(0, shown).map((event) => (
              <li key={event.id}>
                <time dateTime={new Date(event.at_unix_s * 1000).toISOString()}>{time(event.at_unix_s)}</time>
                <span><Badge tone={tone(event.kind)}>{event.kind}</Badge></span>
                <span>{sentence(event)}{event.at && !event.text.includes(":") && ` ${placeName(event.at)}`}</span>
              </li>
            ))}
          </ol>
          {found.length > shown && <div class="row"><button type="button" onClick={() => setShown(shown + SHOWN)}>Show more</button></div>}
        </Card>
      )}
    </>
  );
}
