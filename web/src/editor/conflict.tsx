/** Two people have changed the same entry: both versions, and a decision. */
import { useEffect, useRef } from "preact/hooks";
import type { StaticEntry } from "../documents";
import { clean, time } from "../format";

interface ConflictProps {
  name: string;
  /** Whether the entry was to be added. */
  isNew: boolean;
  mine: { switch?: string; switches?: string[]; flow: string };
  /** `null` if the entry was removed. */
  theirs: StaticEntry | null;
  onKeepMine: () => void;
  onTakeTheirs: () => void;
  onEdit: () => void;
}

export function Conflict(props: ConflictProps) {
  const { name, isNew, mine, theirs, onKeepMine, onTakeTheirs, onEdit } = props;
  const dialog = useRef<HTMLDivElement>(null);
  useEffect(() => dialog.current?.focus(), []);
  return (
    <div class="card" role="alertdialog" aria-labelledby="conflict-title" tabIndex={-1} ref={dialog}>
      <h2 id="conflict-title">
        {theirs !== null && isNew ? `An entry named ${clean(name)} exists already` : `Somebody else has ${theirs === null ? "removed" : "changed"} ${clean(name)}`}
      </h2>
      <p>Nothing was saved. Decide which version stays.</p>
      <div class="versions">
        <section>
          <h3>Yours</h3>
          <p class="hint">not saved</p>
          <pre>{`${mine.switch ?? (mine.switches ?? []).join(", ")}\n${mine.flow}`}</pre>
        </section>
        <section>
          <h3>Theirs</h3>
          {theirs === null ? <p>The entry was removed.</p> : (
            <>
              <p class="hint">revision {theirs.revision}, {time(theirs.changed_at_unix_s)}</p>
              <pre>{`${theirs.switch ?? (theirs.switches ?? []).join(", ")}\n${theirs.flow ?? ""}`}</pre>
            </>
          )}
        </section>
      </div>
      <div class="row">
        <button type="button" class="primary" onClick={onKeepMine}>{theirs === null ? "Declare mine again" : "Replace theirs by mine"}</button>
        <button type="button" onClick={onTakeTheirs}>{theirs === null ? "Leave it removed" : "Take theirs"}</button>
        <button type="button" onClick={onEdit}>Go on editing mine</button>
      </div>
    </div>
  );
}
