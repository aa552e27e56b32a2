/** The frame of all views: navigation, state of the connection, token. */
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { chooseToken, describe, identity, isToken, setToken, token, TOKEN_CHOSEN, tokenRequest } from "./api";
import { isExposed } from "./connect";
import { clean } from "./format";
import { connection, failure, isOutdated, version } from "./live";
import { href, route } from "./router";
import { useValue } from "./store";
import { nameOwners } from "./switch-names";
import { theme, type Theme } from "./theme";
import { ChartsView } from "./views/charts";
import { EntriesView, EntryView } from "./views/entries";
import { EventsView } from "./views/events";
import { HostView, HostsView } from "./views/hosts";
import { LinkView, LinksView } from "./views/links";
import { MapView } from "./views/map";
import { SwitchView } from "./views/switch";
import { SwitchesView } from "./views/switches";
import { TraceView } from "./views/trace";

const NAVIGATION = [
  ["map", "Map"],
  ["switches", "Switches"],
  ["links", "Links"],
  ["hosts", "Hosts"],
  ["trace", "Trace"],
  ["entries", "Static entries"],
  ["events", "Events"],
  ["charts", "Charts"],
] as const;

/** Views, and the entry of the navigation to which they belong. */
const VIEWS: Record<string, [ComponentType, string]> = {
  map: [MapView, "map"],
  switches: [SwitchesView, "switches"],
  switch: [SwitchView, "switches"],
  links: [LinksView, "links"],
  link: [LinkView, "links"],
  hosts: [HostsView, "hosts"],
  host: [HostView, "hosts"],
  trace: [TraceView, "trace"],
  entries: [EntriesView, "entries"],
  entry: [EntryView, "entries"],
  events: [EventsView, "events"],
  charts: [ChartsView, "charts"],
};

export function App() {
  const { path } = useValue(route);
  // All views show names of switches.
  useValue(nameOwners);
  const served = useValue(version);
  const [View, active] = VIEWS[path[0] ?? "map"] ?? [Missing, ""];
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  const address = path.join("/");
  // Keyboard and screen reader continue in the new view.
  useEffect(() => {
    if (!isFirst.current) main.current?.focus({ preventScroll: true });
    isFirst.current = false;
    scrollTo(0, 0);
    // On a phone the navigation is wider than the screen.
    document.querySelector('nav [aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [address]);
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href={href("map")} aria-label="Sluice: map">
          <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
            <rect width="32" height="32" rx="7" class="mark" />
            <path d="M9 9 23 9M9 9 16 23M23 9 16 23" class="mark-lines" />
            <g class="mark-dots"><circle cx="9" cy="9" r="3" /><circle cx="23" cy="9" r="3" /><circle cx="16" cy="23" r="3" /></g>
          </svg>
          <span>Sluice</span>
        </a>
        <ConnectionState />
        <Who />
        <ThemeChoice />
      </header>
      <nav aria-label="Views">
        <ul>
          {NAVIGATION.map(([name, text]) => (
            <li key={name}><a href={href(name)} aria-current={active === name ? "page" : undefined}>{text}</a></li>
          ))}
        </ul>
        <p class="about">
          {served !== "" && <>Version {clean(served)}<br /></>}
          <a href="/metrics">Metrics</a> · <a href="/v1/openapi.json">API</a> · <a href="/licences.txt">Licences</a>
        </p>
      </nav>
      <main id="content" tabIndex={-1} ref={main} class={active === "map" ? "wide" : ""}>
        <Lost />
        <Outdated />
        <View key={address} />
      </main>
      <TokenDialog />
    </>
  );
}

function Missing() {
  return <p>There is no such view. <a href={href("map")}>Show the map</a>.</p>;
}

const STATES = { connecting: "Connecting", live: "Live", lost: "Not connected", token: "Token needed" } as const;

function ConnectionState() {
  const state = useValue(connection);
  return <span class={`connection ${state}`} role="status"><span class="dot" aria-hidden="true" />{STATES[state]}</span>;
}

function Lost() {
  const state = useValue(connection);
  const why = useValue(failure);
  if (state !== "lost") return null;
  return why === null ? (
    <p class="note bad" role="alert">
      The controller cannot be reached. The page shows the last state that it has received, and continues when the controller answers again.
    </p>
  ) : (
    <p class="note bad" role="alert">The controller does not serve this page. {describe(why)} The page tries again every second.</p>
  );
}

function Outdated() {
  if (!useValue(isOutdated)) return null;
  return (
    <div class="note warn" role="alert">
      <p>This page belongs to an earlier version of the controller. Reload it; unsaved input is lost.</p>
      <button type="button" onClick={() => location.reload()}>Reload the page</button>
    </div>
  );
}

function Who() {
  const who = useValue(identity);
  useValue(version);
  // A token is entered and forgotten also while the controller serves nothing.
  useValue(connection);
  const has = who && { read: "may read", operate: "may read and change", administer: "may do everything" }[who.role];
  return (
    <span class="who" title={who ? `${clean(who.who)}: ${has}` : undefined}>
      {who && <><span class="who-name">{clean(who.who)}</span> <span class="role">{who.role}</span></>}
      {token() === null ? <button type="button" class="small" onClick={chooseToken}>Enter token</button> : (
        <button type="button" class="small" onClick={() => { setToken(null); identity.set(null); location.reload(); }}>Forget token</button>
      )}
    </span>
  );
}

function ThemeChoice() {
  const current = useValue(theme);
  return (
    <label class="theme">
      <span class="visually-hidden">Theme</span>
      <select value={current} onChange={(event) => theme.set(event.currentTarget.value as Theme)}>
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

const MALFORMED = "A token has visible ASCII characters only: copy it again, without spaces.";

const REASONS: Record<string, string> = {
  token_missing: "This controller asks for a token.",
  token_unknown: "The token is not known to the controller.",
  token_expired: "The token has expired.",
  token_malformed: MALFORMED,
  token_without_tls: "The token was sent without TLS, so others may have read it: replace it, and open the page with https://.",
  [TOKEN_CHOSEN]: "With a token, you may do what its role permits.",
  too_many_refused_tokens: "Too many tokens were refused. Wait for a minute, and try again.",
};

const WARNING_ID = "token-warning";

/** What happens to a token that is entered on an exposed page. */
function ClearTextWarning() {
  return (
    <p class="note warn" id={WARNING_ID}>
      This page was loaded over plain HTTP: a token would be sent in clear text, and the controller refuses it unless <code>api.tokens_without_tls</code> is set. Use
      https:// (<code>api.certificate</code>), or a browser on the machine of the controller.
    </p>
  );
}

/** Asks for a token over the view, which stays as it is. */
function TokenDialog() {
  const why = useValue(tokenRequest);
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [isMalformed, setMalformed] = useState(false);
  useEffect(() => {
    setMalformed(false);
    if (why !== null && !dialog.current?.open) dialog.current?.showModal();
    if (why === null && dialog.current?.open) dialog.current.close();
  }, [why]);
  if (why === null) return <dialog ref={dialog} />;
  const reason = isMalformed ? MALFORMED : (REASONS[why.code] ?? why.message);
  const known = token();
  const isChosen = why.code === TOKEN_CHOSEN;
  const hasWarning = isExposed(location);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="token-title"
      onCancel={(event) => {
        event.preventDefault();
        if (isChosen) setToken(null);
      }}
    >
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isToken(text.trim())) return setMalformed(true);
          setToken(text.trim());
          setText("");
        }}
      >
        <h2 id="token-title">Token</h2>
        {hasWarning && <ClearTextWarning />}
        <p role="alert">{reason}</p>
        <p class="hint">
          <code>sluice token add NAME --role read</code> makes one at the controller. It is kept until this window is closed. What you have entered on the page stays.
        </p>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          required
          aria-describedby={hasWarning ? WARNING_ID : undefined}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <div class="row">
          <button type="submit" class="primary">Use this token</button>
          {(known !== null || isChosen) && (
            <button type="button" onClick={() => setToken(null)}>{known === null ? "Cancel" : "Forget token"}</button>
          )}
        </div>
      </form>
    </dialog>
  );
}
