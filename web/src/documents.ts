/** Documents of the API, as `docs/api.md` describes them. */

export interface Place {
  dpid: string;
  switch: string | null;
  port?: number;
  port_name?: string | null;
}

export interface ControllerDocument {
  version: string;
  store_error: StoreError | null;
}

/** Why what is declared cannot be changed. */
export interface StoreError {
  /** `open`: the store could not be opened at the start. `write`: the last change could not be written. */
  operation: "open" | "write";
  message: string;
}

export interface MapSwitch {
  dpid: string;
  name: string | null;
  hosts: number;
}

export interface MapLink {
  from: number;
  from_port: number;
  to: number;
  to_port: number;
  is_drained: boolean;
  bits_per_s: number | null;
  /** Of the port that sends, in each direction. */
  speed_bits_per_s: number | null;
}

export interface BlockedPort {
  /** Place in the list of switches. */
  switch: number;
  port: number;
  port_name: string;
  reason: "packet-ins" | "shared-segment" | "bundle";
  host: string | null;
  packets_per_s_max: number | null;
}

export interface Topology {
  is_complete: boolean;
  switches: MapSwitch[];
  links: MapLink[];
  blocked_ports: BlockedPort[];
  /** Number of benches that report. */
  benches: number;
}

export interface BenchInterval {
  number: number;
  at_unix_s: number;
  running_s: number;
  rate_per_s: number;
  latency_p50_s: number | null;
  latency_p99_s: number | null;
  is_measured: boolean;
}

export interface Bench {
  bench: string;
  /** Number of its run: a range of switches and repetitions have several. */
  run: number;
  target: string;
  load: string;
  switches: number;
  unit: string;
  intervals: BenchInterval[];
}

export interface SwitchDocument {
  dpid: string;
  name: string | null;
  openflow: string;
  address: string;
  connected_at_unix_s: number;
  role: string | null;
  ports: number;
  tables: number;
  buffers: number;
  description: { manufacturer: string; hardware: string; software: string; serial_number: string; datapath: string } | null;
  session: { messages_received: number; packet_ins_received: number; errors_received: number; backlog_bytes: number };
  last_errors: { at_unix_s: number; error: string; request: string | null; xid: number }[];
}

export interface PortDocument {
  port: number;
  name: string;
  mac: string;
  /** Whether it is administratively up. */
  is_enabled: boolean;
  is_up: boolean;
  speed_bits_per_s: number | null;
  role: string;
  peer: Place | null;
  hosts: number;
  statistics: Record<string, number | null> | null;
  rates: Record<string, number | null> | null;
}

export interface Host {
  mac: string;
  name: string | null;
  vlan: number;
  addresses: string[];
  at: Place;
  is_quarantined: boolean;
}

export interface Flow {
  owner: string | null;
  static_entry: string | null;
  text: string;
  table_id: number;
  priority: number;
  stats?: { packet_count?: number | null; byte_count?: number | null; duration?: { sec: number } | null } | null;
  [key: string]: unknown;
}

export interface StaticEntry {
  name: string;
  switch?: string;
  switches?: string[];
  flow?: string;
  revision: number;
  changed_at_unix_s: number;
  state: string;
  reason: string | null;
  at?: { dpid: string; switch: string | null; state: string; reason: string | null }[];
}

export interface EventDocument {
  id: string;
  at_unix_s: number;
  kind: string;
  text: string;
  at?: Place;
  from?: Place;
  to?: Place;
  host?: { mac: string; vlan: number; addresses: string[] };
  claimant?: { mac: string };
  claimant_at?: Place;
  reason?: string;
  policy?: { revision: number };
  [key: string]: unknown;
}

export interface PathHop {
  dpid: string;
  switch: string | null;
  in_port: number;
  out_port: number;
}

export interface PathsDocument {
  from: Host;
  to: Host;
  installed: { outcome: string; summary: string; path: PathHop[] };
  computed: { switches: number; paths: PathHop[][]; is_truncated: boolean };
  agrees: boolean | null;
}

export interface Drain {
  state: "draining" | "drained";
  is_up: boolean;
  requested_at_unix_s: number;
  ends: { at: Place; progress: { entries: number; without_alternative: number; foreign_entries: number; is_quiet: boolean } | null }[];
}

export interface Quarantine {
  mac: string;
  reason: string | null;
  by: string;
  since_unix_s: number;
  addresses: string[];
  at: Place | null;
  state: string;
  state_reason: string | null;
}

export interface Sample {
  at_unix_s: number;
  packet_ins_per_s: number;
  messages_per_s: number;
  latency_p50_s: number | null;
  latency_p99_s: number | null;
  resident_bytes: number | null;
  switches: number;
}

export interface Identity {
  who: string;
  role: "read" | "operate" | "administer";
  expires_unix_s: number | null;
}

export interface TraceDocument {
  outcome: string;
  summary: string;
  hops: {
    hop: number;
    after: number | null;
    at: Place;
    packet: { text: string };
    steps: { depth: number; step: string; text?: string; table?: number; priority?: number; owner?: string | null; port?: unknown; to?: Place | null; end?: number; result?: string }[];
  }[];
  ends: { outcome: string; text: string; hop: number }[];
}
