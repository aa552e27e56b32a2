/** Keeps what the page shows current: a stream of events, and documents that are read again when an event says so, or regularly. */
import { ApiError, errorOf, failedChanges, get, headers, identity, refuse, token, tokenRequest } from "./api";
import type { ControllerDocument, EventDocument, Identity, Quarantine, StaticEntry, StoreError, Topology } from "./documents";
import { followVisibility, isVisible } from "./polling";
import { readStream, type SseMessage } from "./sse";
import { until, Value } from "./store";
import { setConnected } from "./switch-names";

export type Connection = "connecting" | "live" | "lost" | "token";

/** Events that are kept. */
const EVENTS_MAX = 2000;
/** Events that are read at the start. */
const EVENTS_AT_START = 1000;
/** Time between two readings of the map while a view shows loads, and while none does. */
const TOPOLOGY_INTERVAL_MS = 2000;
const TOPOLOGY_IDLE_INTERVAL_MS = 10_000;
/** Time between two readings of the map at least, however often the network changes. */
const TOPOLOGY_PAUSE_MS = 500;
/** Time between two readings of events without a stream. */
const POLL_INTERVAL_MS = 1500;
/** Time between two attempts to reach the controller. */
const RETRY_INTERVAL_MS = 1000;
/** A stream that ends earlier is opened again only after a pause. */
const STREAM_SHORT_MS = 5000;
/** After this time without a stream, one is tried again. */
const STREAM_RETRY_MS = 60_000;
/** Events that come within this time are shown together. */
const BATCH_MS = 100;
/** Events come in groups: the map is read once for those of this time. Clients share a map for 200 ms, so that one read earlier may be from before the event. */
const GROUP_MS = 250;
/** How long the page itself may take to be sent. */
const PAGE_TIMEOUT_MS = 10_000;
/** A browser has six connections to a server: streams of its windows use up to three of them. */
const STREAMS_OF_BROWSER = 3;

export const connection = new Value<Connection>("connecting");
/** Why the controller, though it answers, does not serve this page; `null` if it cannot be reached. */
export const failure = new Value<ApiError | null>(null);
export const topology = new Value<Topology | null>(null);
/** The newest last. */
export const events = new Value<readonly EventDocument[]>([]);
export const refused = new Value<readonly StaticEntry[]>([]);
export const quarantines = new Value<readonly Quarantine[]>([]);
/** Why what is declared cannot be changed; `null` if it can. */
export const storeError = new Value<StoreError | null>(null);
export const version = new Value<string>("");
/** Whether the controller serves a newer page than this one. */
export const isOutdated = new Value(false);
/** Another number after each event that concerns hosts. */
export const hostsVersion = new Value(0);

/** Kinds of events after which the map is read again. */
const OF_TOPOLOGY = /^(switch|link|port|host|policy|events-lost)/;

/** Kinds of events after which the hosts are read again. */
const OF_HOSTS = /^(switch|host|events-lost)/;

let lastId: string | null = null;
/** Events of the stream that are not in `events` yet. */
let batch: EventDocument[] = [];
let lookers = 0;
let wake: (() => void) | null = null;
let isStarted = false;
let topologyDue = 0;
let topologyReadAt = 0;
let declaredDue = 0;
let abort = new AbortController();

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, Math.max(0, ms));
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

/** Reads loads often until the returned function is called. */
export function lookAtLoads(): () => void {
  lookers += 1;
  topologyDue = 0;
  wake?.();
  return () => {
    lookers -= 1;
  };
}

/** Reads everything again, since something was changed or a token was entered. */
export function refresh(): void {
  topologyDue = Math.min(topologyDue, Date.now() + GROUP_MS);
  declaredDue = 0;
  wake?.();
}

/** Reads what is declared again, since a change has failed: the store may not be writable. */
function readDeclaredNow(): void {
  declaredDue = 0;
  wake?.();
}

/** Reads everything again, hosts included, since events were lost. */
function refreshAll(): void {
  hostsVersion.set(hostsVersion.get() + 1);
  refresh();
}

export function start(): void {
  if (isStarted) return;
  isStarted = true;
  followVisibility();
  isVisible.subscribe(() => {
    if (isVisible.get()) refresh();
    else abort.abort();
  });
  tokenRequest.subscribe(() => {
    // With another token, everything may be different.
    connection.set(tokenRequest.get() === null ? "connecting" : "token");
    refresh();
  });
  failedChanges.subscribe(readDeclaredNow);
  void followDocuments();
  void followEvents();
}

/** Whether requests make sense now: the page is visible, and no token is being asked for. */
function mayAsk(): boolean {
  return isVisible.get() && tokenRequest.get() === null;
}

/** What a failed request says about the connection. */
function note(error: unknown): void {
  if (tokenRequest.get() !== null) connection.set("token");
  else if (error instanceof ApiError && error.isUnreachable) {
    failure.set(null);
    connection.set("lost");
  }
}

/** When the map is read next. */
function nextTopology(): number {
  return Math.max(topologyDue, topologyReadAt + TOPOLOGY_PAUSE_MS);
}

async function readTopology(): Promise<void> {
  const withLoads = lookers > 0;
  topologyDue = Date.now() + (withLoads ? TOPOLOGY_INTERVAL_MS : TOPOLOGY_IDLE_INTERVAL_MS);
  try {
    // The controller asks the switches for loads only while somebody sees them.
    const network = await get<Topology>(`/v1/topology${withLoads ? "?loads=true" : ""}`);
    setConnected(network.switches);
    topology.set(network);
  } finally {
    topologyReadAt = Date.now();
  }
}

async function followDocuments(): Promise<void> {
  for (;;) {
    await until(mayAsk, isVisible, tokenRequest);
    const now = Date.now();
    try {
      if (connection.get() !== "live" || identity.get() === null) await connectOrFail();
      if (mayAsk() && now >= nextTopology()) await readTopology();
      if (mayAsk() && now >= declaredDue) {
        declaredDue = now + 5 * TOPOLOGY_IDLE_INTERVAL_MS;
        await readDeclared();
      }
    } catch (error) {
      note(error);
      topologyDue = Math.max(topologyDue, Date.now() + RETRY_INTERVAL_MS);
    }
    if (mayAsk()) await sleep(connection.get() === "live" ? Math.min(nextTopology(), declaredDue) - Date.now() : RETRY_INTERVAL_MS);
  }
}

/** Connects. If the controller refuses that, the page is not connected, and shows why. */
async function connectOrFail(): Promise<void> {
  try {
    await connect();
  } catch (error) {
    if (tokenRequest.get() === null) {
      failure.set(error instanceof ApiError && !error.isUnreachable ? error : null);
      connection.set("lost");
    }
    throw error;
  }
}

async function connect(): Promise<void> {
  identity.set(await get<Identity>("/v1/identity"));
  const controller = await get<ControllerDocument>("/v1/controller");
  version.set(controller.version);
  topologyDue = 0;
  declaredDue = 0;
  failure.set(null);
  connection.set("live");
}

/** Without a store there are neither static entries nor quarantines. */
async function readDeclared(): Promise<void> {
  // Controllers of earlier versions have no such field.
  storeError.set((await get<Partial<ControllerDocument>>("/v1/controller")).store_error ?? null);
  try {
    refused.set((await get<{ entries: StaticEntry[] }>("/v1/static/flows?state=refused")).entries);
    quarantines.set((await get<{ quarantines: Quarantine[] }>("/v1/quarantines")).quarantines);
  } catch (error) {
    if (!(error instanceof ApiError) || error.isUnreachable || error.status === 401) throw error;
    refused.set([]);
    quarantines.set([]);
  }
}

/** The file with the program of a page, whose name has the hash of its content; `null` if it has none. */
function programOf(page: Document): string | null {
  return page.querySelector('script[type="module"]')?.getAttribute("src") ?? null;
}

/** Finds out whether the controller serves another page than this one: it may have been upgraded. */
export async function checkPage(): Promise<void> {
  try {
    const response = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(PAGE_TIMEOUT_MS) });
    const served = response.ok ? programOf(new DOMParser().parseFromString(await response.text(), "text/html")) : null;
    if (served !== null) isOutdated.set(served !== programOf(document));
  } catch {
    // The state of the connection is shown at the top.
  }
}

async function followEvents(): Promise<void> {
  for (;;) {
    await until(() => mayAsk() && connection.get() === "live", isVisible, tokenRequest, connection);
    try {
      // A stream has ended: the controller may be another one.
      if (lastId !== null) await checkPage();
      await readHistory();
      const openedAt = Date.now();
      if (!(await withStream(stream))) await poll();
      else if (Date.now() - openedAt < STREAM_SHORT_MS) await pause(RETRY_INTERVAL_MS);
    } catch (error) {
      if (!abort.signal.aborted) note(error);
      await pause(RETRY_INTERVAL_MS);
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Runs `run` if this browser has a stream left: windows share the connections to a server. */
async function withStream(run: () => Promise<boolean>): Promise<boolean> {
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined) return false;
  for (let slot = 0; slot < STREAMS_OF_BROWSER; slot += 1) {
    const result = await locks.request(`sluice-events-${slot}`, { ifAvailable: true }, async (lock) =>
      lock === null ? null : run(),
    );
    if (result !== null) return result;
  }
  return false;
}

/** Reads the stream until it ends. `false` if the controller has none left. */
async function stream(): Promise<boolean> {
  // The window may have been hidden while the history was read.
  if (!mayAsk()) return true;
  abort = new AbortController();
  const used = token();
  const after = lastId === null ? "" : `?after=${encodeURIComponent(lastId)}`;
  let response: Response;
  try {
    response = await fetch(`/v1/events${after}`, { headers: headers(), signal: abort.signal, cache: "no-store" });
  } catch {
    if (!abort.signal.aborted) connection.set("lost");
    return true;
  }
  if (!response.ok) {
    const error = await errorOf(response);
    if (error.code === "too_many_streams") return false;
    refuse(error, used);
    throw error;
  }
  try {
    await readStream(response, receive);
  } catch {
    // The connection was lost, or closed because the page is hidden: the next request shows which.
  }
  if (!abort.signal.aborted) await get("/v1/identity");
  return true;
}

/** Reads the history again and again, for as long as streams are not tried again. */
async function poll(): Promise<void> {
  const end = Date.now() + STREAM_RETRY_MS;
  while (Date.now() < end && mayAsk() && connection.get() === "live") {
    await pause(POLL_INTERVAL_MS);
    if (mayAsk()) await readHistory();
  }
}

/** Reads the events since the last one that is known. */
async function readHistory(): Promise<void> {
  const query = lastId === null ? `limit=${EVENTS_AT_START}` : `limit=${EVENTS_MAX}&after=${encodeURIComponent(lastId)}`;
  const document = await get<{ events: EventDocument[]; last_id: string; lost: number | null }>(`/v1/events/history?${query}`);
  addBatch();
  const isNewRun = lastId !== null && document.last_id.split("-")[0] !== lastId.split("-")[0];
  if (isNewRun) events.set([]);
  add(document.events);
  if (isNewRun || (document.lost ?? 0) > 0) refreshAll();
  lastId = document.last_id;
}

function receive(message: SseMessage): void {
  if (message.id !== "") lastId = message.id;
  if (message.data === "") return;
  if (message.event === "end") {
    void get("/v1/identity").catch(note);
    return;
  }
  if (message.event === "reset") {
    batch = [];
    events.set([]);
  }
  if (message.event === "gap" || message.event === "reset") {
    refreshAll();
    return;
  }
  if (batch.length === 0) setTimeout(addBatch, BATCH_MS);
  batch.push(JSON.parse(message.data) as EventDocument);
}

function addBatch(): void {
  const received = batch;
  batch = [];
  add(received);
}

function add(added: EventDocument[]): void {
  if (added.length === 0) return;
  events.set([...events.get(), ...added].slice(-EVENTS_MAX));
  if (added.some((event) => OF_TOPOLOGY.test(event.kind))) topologyDue = Math.min(topologyDue, Date.now() + GROUP_MS);
  if (added.some((event) => OF_HOSTS.test(event.kind))) hostsVersion.set(hostsVersion.get() + 1);
  if (added.some((event) => /^(policy|host-(quarantined|released))/.test(event.kind))) declaredDue = 0;
  wake?.();
}
