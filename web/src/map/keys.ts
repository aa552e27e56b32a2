/** What keys do on the map. */
import type { MapActions, MapCanvas, Selection } from "./canvas";

const DIRECTIONS: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

type Key = Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "altKey" | "metaKey">;
type Movable = Pick<MapCanvas, "pan" | "zoom" | "fit" | "next">;

/** Processes a key. Returns `false` for those that are left to the browser, such as Ctrl and +, which enlarges the page. */
export function handleKey(event: Key, map: Movable, selection: Selection, actions: MapActions): boolean {
  if (event.ctrlKey || event.altKey || event.metaKey) return false;
  const direction = DIRECTIONS[event.key];
  if (direction) {
    if (event.shiftKey) map.pan(-60 * direction[0], -60 * direction[1]);
    else {
      const next = map.next(...direction);
      if (next !== null) actions.select({ kind: "switch", id: next });
    }
    return true;
  }
  if (event.key === "+" || event.key === "=") map.zoom(1.3);
  else if (event.key === "-") map.zoom(1 / 1.3);
  else if (event.key === "0") map.fit();
  else if (event.key === "Enter" && selection !== null) actions.open(selection);
  else if (event.key === "Escape") actions.select(null);
  else return false;
  return true;
}
