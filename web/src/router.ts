/** The view that the address names: `#/switch/0000000000000001?…`. */
import { Value } from "./store";

export interface Route {
  /** Segments, decoded; the first is the name of the view. */
  path: string[];
  query: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const segments = path.split("/").filter((part) => part !== "");
  return { path: segments.map(decode), query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = new Value<Route>(parse(location.hash));

addEventListener("hashchange", () => route.set(parse(location.hash)));

/** The address of a view. */
export function href(view: string, ...rest: (string | number)[]): string {
  return `#/${[view, ...rest.map((part) => encodeURIComponent(String(part)))].join("/")}`;
}

/** The address of the view of a host: the same Ethernet address in another VLAN is another host. */
export function hostHref({ mac, vlan }: { mac: string; vlan: number }): string {
  return vlan === 0 ? href("host", mac) : href("host", mac, vlan);
}

export function go(address: string): void {
  location.hash = address.replace(/^#/, "");
}
