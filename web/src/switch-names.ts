/** Names of switches on the page: a name that another connected switch has as well is replaced by the datapath id. */
import type { MapSwitch, Place } from "./documents";
import { clean, shortDpid } from "./format";
import { Value } from "./store";

/** The connected switch to which a name belongs; `null` if several have it, such as a description that is the same for all. */
export const nameOwners = new Value<ReadonlyMap<string, string | null>>(new Map());

/** Replaces the names that are known by those of the connected switches. */
export function setConnected(switches: readonly MapSwitch[]): void {
  const owners = new Map<string, string | null>();
  for (const { dpid, name } of switches) if (name !== null) owners.set(name, owners.has(name) ? null : dpid);
  const known = nameOwners.get();
  const isSame = owners.size === known.size && [...owners].every(([name, owner]) => known.get(name) === owner);
  if (!isSame) nameOwners.set(owners);
}

/** The name of a switch if it identifies it, or else the datapath id without leading zeros. */
export function switchName(place: { dpid: string; switch?: string | null; name?: string | null }): string {
  const name = place.switch ?? place.name ?? null;
  const owners = nameOwners.get();
  const isOwn = name !== null && (!owners.has(name) || owners.get(name) === place.dpid);
  return clean(isOwn ? name : shortDpid(place.dpid));
}

/** A port with its switch: `s1:2`. */
export function placeName(place: Place): string {
  return place.port === undefined ? switchName(place) : `${switchName(place)}:${place.port}`;
}
