/** What the time line shows of events. */
import type { EventDocument, Place } from "./documents";
import { clean } from "./format";
import { switchName } from "./switch-names";

/** A switch or port as the controller writes it into the text of an event. */
function placeText(name: string, { port, port_name }: Place): string {
  if (port === undefined) return name;
  return typeof port_name === "string" ? `${name} port ${port} (${port_name})` : `${name} port ${port}`;
}

/** The text of an event without its kind. Switches have the names that they have elsewhere on the page. */
export function eventText(event: EventDocument): string {
  let rest = event.text.replace(/^[a-z ]+: /, "");
  let text = "";
  // In the order of the text.
  for (const place of [event.at, event.from, event.to, event.claimant_at]) {
    if (place === undefined) continue;
    const sent = placeText(place.switch ?? place.dpid, place);
    const start = rest.indexOf(sent);
    if (start < 0) continue;
    text += rest.slice(0, start) + placeText(switchName(place), place);
    rest = rest.slice(start + sent.length);
  }
  return clean(text + rest, 300);
}

/** The number of events that have been added since the time line was paused. The oldest may have been discarded meanwhile. */
export function addedSince(paused: readonly EventDocument[], all: readonly EventDocument[]): number {
  const last = paused.at(-1)?.id ?? "";
  return all.length - 1 - all.map(({ id }) => id).lastIndexOf(last);
}
