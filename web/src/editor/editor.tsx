/** Declares a static flow entry, by fields or as text. */
import { useMemo, useState } from "preact/hooks";
import { ApiError, change, get, segment } from "../api";
import type { StaticEntry } from "../documents";
import { compose, EMPTY_FORM, FIELDS, parseFlow, PROTOCOLS, problems, protocolOf, type FlowForm } from "../fields";
import { clean } from "../format";
import { topology } from "../live";
import { ErrorNote, Field } from "../parts";
import { useValue } from "../store";
import { switchName } from "../switch-names";
import { Conflict } from "./conflict";

interface Draft {
  name: string;
  switches: string;
  mode: "fields" | "text";
  form: FlowForm;
  text: string;
}

function draftOf(entry: StaticEntry | null, switches: string[]): Draft {
  const text = entry?.flow ?? compose(EMPTY_FORM);
  const form = parseFlow(text);
  return {
    name: entry?.name ?? "",
    switches: entry ? selectorOf(entry) : switches.join(", "),
    mode: form === null ? "text" : "fields",
    form: form ?? EMPTY_FORM,
    text,
  };
}

/** The switches of an entry as one text: `all`, or names with commas. */
export function selectorOf(entry: StaticEntry): string {
  return entry.switch ?? (entry.switches ?? []).join(", ");
}

function body(draft: Draft): { switch: string; flow: string } | { switches: string[]; flow: string } {
  const names = draft.switches.split(",").map((name) => name.trim()).filter((name) => name !== "");
  const flow = draft.mode === "fields" ? compose(draft.form) : draft.text.trim();
  return names.length === 1 ? { switch: names[0] as string, flow } : { switches: names, flow };
}

interface EditorProps {
  /** The entry that is changed; a new one is added without it. */
  entry?: StaticEntry;
  /** Switches of a new entry. */
  switches: string[];
  onDone: (entry: StaticEntry) => void;
  onCancel: () => void;
}

export function FlowEditor(props: EditorProps) {
  const { entry, switches, onDone, onCancel } = props;
  const [draft, setDraft] = useState(() => draftOf(entry ?? null, switches));
  // What the draft is based on: 0 for an entry that must not exist.
  const [revision, setRevision] = useState(entry?.revision ?? 0);
  const [conflict, setConflict] = useState<{ base: number; theirs: StaticEntry | null } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);
  const faults = draft.mode === "fields" ? problems(draft.form) : [];
  const update = (part: Partial<Draft>): void => setDraft({ ...draft, ...part });
  const path = `/v1/static/flows/${segment(draft.name.trim())}`;

  const save = async (base: number): Promise<void> => {
    setIsBusy(true);
    setError(null);
    try {
      const saved = await saveUnlessChanged(path, base, body(draft));
      if (saved === null) setConflict({ base, theirs: await present(path) });
      else onDone(saved);
    } catch (problem) {
      setError(problem);
    } finally {
      setIsBusy(false);
    }
  };
  const setName = (name: string): void => {
    update({ name });
    // Only a new entry can be renamed.
    setRevision(0);
  };
  const setMode = (mode: Draft["mode"]): void => {
    if (mode === draft.mode) return;
    if (mode === "text") return update({ mode, text: compose(draft.form) });
    const form = parseFlow(draft.text);
    if (form === null) return setError(new ApiError(400, "text", "the form cannot show all of this text: save it as text"));
    setError(null);
    update({ mode, form });
  };
  if (conflict !== null) {
    return (
      <Conflict
        name={draft.name}
        isNew={conflict.base === 0}
        mine={body(draft)}
        theirs={conflict.theirs}
        onKeepMine={() => {
          const base = conflict.theirs?.revision ?? 0;
          setRevision(base);
          setConflict(null);
          void save(base);
        }}
        onTakeTheirs={() => {
          if (conflict.theirs === null) return onCancel();
          setDraft(draftOf(conflict.theirs, switches));
          setRevision(conflict.theirs.revision);
          setConflict(null);
        }}
        onEdit={() => {
          setRevision(conflict.theirs?.revision ?? 0);
          setConflict(null);
        }}
      />
    );
  }
  return (
    <form
      class="card editor"
      aria-label={entry ? `Change ${clean(entry.name)}` : "Add a flow entry"}
      onSubmit={(event) => {
        event.preventDefault();
        void save(revision);
      }}
    >
      <div class="fields">
        <Field label="Name" id="entry-name" hint="The entry is kept under this name.">
          <input id="entry-name" required maxLength={64} disabled={entry !== undefined} value={draft.name} onInput={(event) => setName(event.currentTarget.value)} />
        </Field>
        <Field label="Switches" id="entry-switches" hint={<>Names or datapath ids with commas, or <code>all</code>.</>}>
          <input id="entry-switches" required value={draft.switches} onInput={(event) => update({ switches: event.currentTarget.value })} list="entry-switch-names" />
        </Field>
        <SwitchNames />
        <div class="whole row">
          <button type="button" aria-pressed={draft.mode === "fields"} onClick={() => setMode("fields")}>Fields</button>
          <button type="button" aria-pressed={draft.mode === "text"} onClick={() => setMode("text")}>Text of ovs-ofctl</button>
        </div>
        {draft.mode === "fields" ? <FormFields form={draft.form} onChange={(form) => update({ form })} /> : (
          <Field label="Flow entry" id="entry-text" class="whole" hint="As for ovs-ofctl add-flow: match, then actions.">
            <textarea id="entry-text" class="code" required value={draft.text} onInput={(event) => update({ text: event.currentTarget.value })} />
          </Field>
        )}
      </div>
      {faults.length > 0 && <ul class="note warn">{faults.map((fault) => <li key={fault}>{fault}</li>)}</ul>}
      <ErrorNote error={error} />
      <div class="row">
        <button type="submit" class="primary" disabled={isBusy || faults.length > 0}>{isBusy ? "Saving…" : entry ? "Save" : "Add"}</button>
        <button type="button" onClick={onCancel}>Cancel</button>
      </div>
    </form>
  );
}

/** The saved entry; `null` if its revision is another one by now. */
async function saveUnlessChanged(path: string, revision: number, draft: ReturnType<typeof body>): Promise<StaticEntry | null> {
  try {
    return await change<StaticEntry>("PUT", `${path}?wait=true&if_revision=${revision}`, draft);
  } catch (error) {
    if (error instanceof ApiError && error.code === "revision_differs") return null;
    throw error;
  }
}

/** The entry as it is now; `null` if somebody has removed it. */
async function present(path: string): Promise<StaticEntry | null> {
  try {
    return await get<StaticEntry>(path);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

function SwitchNames() {
  const known = useValue(topology)?.switches ?? [];
  return <datalist id="entry-switch-names"><option value="all" />{known.slice(0, 200).map((it) => <option key={it.dpid} value={it.dpid}>{switchName(it)}</option>)}</datalist>;
}

const ACTIONS = [
  ["drop", "Drop", ""],
  ["output", "Output to port", "2"],
  ["group", "Group", "1"],
  ["meter", "Meter", "1"],
  ["CONTROLLER", "Send to the controller", "65535"],
  ["FLOOD", "Flood", ""],
  ["NORMAL", "Normal switching", ""],
  ["set_field", "Set a field", "10.0.0.9->nw_dst"],
  ["pop_vlan", "Remove the VLAN tag", ""],
  ["push_vlan", "Add a VLAN tag", "0x8100"],
  ["dec_ttl", "Decrement the TTL", ""],
  ["goto_table", "Go to table", "1"],
] as const;

function FormFields(props: { form: FlowForm; onChange: (form: FlowForm) => void }) {
  const { form, onChange } = props;
  const { keyword } = protocolOf(form);
  const preview = useMemo(() => compose(form), [form]);
  // A field that is added gets the first name that is not there yet.
  const unused = FIELDS.find((field) => !form.fields.some((it) => it.name === field.name));
  const setField = (at: number, part: Partial<FlowForm["fields"][number]>): void =>
    onChange({ ...form, fields: form.fields.map((field, index) => (index === at ? { ...field, ...part } : field)) });
  const setAction = (at: number, text: string): void => onChange({ ...form, actions: form.actions.map((action, index) => (index === at ? text : action)) });
  return (
    <>
      <Field label="Priority" id="entry-priority" hint="0 to 65535; forwarding has 100 to 102.">
        <input id="entry-priority" inputMode="numeric" value={form.priority} onInput={(event) => onChange({ ...form, priority: event.currentTarget.value })} />
      </Field>
      <Field label="Table" id="entry-table">
        <input id="entry-table" inputMode="numeric" value={form.table} onInput={(event) => onChange({ ...form, table: event.currentTarget.value })} />
      </Field>
      <fieldset class="whole">
        <legend>Packets</legend>
        <div class="pair">
          <select aria-label="Protocol" value={form.protocol} onChange={(event) => onChange({ ...form, protocol: event.currentTarget.value })}>
            <option value="">{keyword === "" ? "any protocol" : `${keyword}, as the fields need it`}</option>
            {PROTOCOLS.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </div>
        {form.fields.map((field, at) => {
          const known = FIELDS.find((it) => it.name === field.name);
          return (
            <div class="pair" key={at}>
              <select aria-label={`Field ${at + 1}`} value={field.name} onChange={(event) => setField(at, { name: event.currentTarget.value })}>
                {FIELDS.map((it) => <option key={it.name} value={it.name}>{it.label}{it.needs ? ` (${it.needs})` : ""}</option>)}
              </select>
              <input aria-label={`Value of ${known?.label ?? field.name}`} placeholder={known?.example ?? ""} value={field.value} onInput={(event) => setField(at, { value: event.currentTarget.value })} />
              <button type="button" aria-label={`Remove ${known?.label ?? field.name}`} onClick={() => onChange({ ...form, fields: form.fields.filter((_, index) => index !== at) })}>×</button>
            </div>
          );
        })}
        {unused && <button type="button" onClick={() => onChange({ ...form, fields: [...form.fields, { name: unused.name, value: "" }] })}>Add a field</button>}
      </fieldset>
      <fieldset class="whole">
        <legend>Actions</legend>
        {form.actions.map((action, at) => {
          const [name, separator] = splitAction(action);
          const known = ACTIONS.find((it) => it[0].toLowerCase() === name.toLowerCase());
          return (
            <div class="pair" key={at}>
              <select aria-label={`Action ${at + 1}`} value={known?.[0] ?? "other"} onChange={(event) => setAction(at, example(event.currentTarget.value))}>
                {ACTIONS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
                <option value="other">Other, as text</option>
              </select>
              {(known === undefined || known[2] !== "" || separator !== "") && (
                <input
                  aria-label={`Value of action ${at + 1}`}
                  value={known === undefined ? action : action.slice(name.length + separator.length)}
                  onInput={(event) => setAction(at, known === undefined ? event.currentTarget.value : `${name}:${event.currentTarget.value}`)}
                />
              )}
              {form.actions.length > 1 && <button type="button" aria-label={`Remove action ${at + 1}`} onClick={() => onChange({ ...form, actions: form.actions.filter((_, index) => index !== at) })}>×</button>}
            </div>
          );
        })}
        <button type="button" onClick={() => onChange({ ...form, actions: [...form.actions.filter((it) => it !== "drop"), "output:1"] })}>Add an action</button>
      </fieldset>
      <p class="whole hint">The entry as text: <code>{clean(preview, 400)}</code></p>
    </>
  );
}

function splitAction(action: string): [name: string, separator: string] {
  const at = action.indexOf(":");
  return at < 0 ? [action, ""] : [action.slice(0, at), ":"];
}

/** An action with a value that may be changed. */
function example(name: string): string {
  const known = ACTIONS.find((it) => it[0] === name);
  if (known === undefined) return "strip_vlan";
  return known[2] === "" ? known[0] : `${known[0]}:${known[2]}`;
}

