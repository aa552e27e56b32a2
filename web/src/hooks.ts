/** What views share. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, tokenRequest } from "./api";
import { connection } from "./live";
import { repeat } from "./polling";
import { useValue } from "./store";

export interface Loaded<T> {
  data: T | null;
  error: unknown;
  reload: () => void;
}

/** A document that is read now, and again every `intervalMs` while the window is shown. The last one stays if a later reading fails. */
export function useDocument<T>(path: string | null, intervalMs?: number): Loaded<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; error: unknown }>({ path, data: null, error: null });
  const [turn, setTurn] = useState(0);
  const link = useValue(connection);
  useEffect(() => {
    if (path === null || link !== "live") return undefined;
    const abort = new AbortController();
    const read = async (): Promise<void> => {
      if (tokenRequest.get() !== null) return;
      try {
        const data = await get<T>(path, abort.signal);
        setState({ path, data, error: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof ApiError && error.isUnreachable)) {
          setState((last) => ({ path, data: last.path === path ? last.data : null, error }));
        }
      }
    };
    const stop = repeat(read, intervalMs ?? null);
    return () => {
      stop();
      abort.abort();
    };
  }, [path, intervalMs, turn, link]);
  const reload = useCallback(() => setTurn((last) => last + 1), []);
  const isCurrent = state.path === path;
  return { data: isCurrent ? state.data : null, error: isCurrent ? state.error : null, reload };
}

/** The title of the window and of the view. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} – Sluice`;
  }, [title]);
}

/** A value that follows another one when it has not changed for a moment. */
export function useSettled<T>(value: T, ms = 200): T {
  const [settled, setSettled] = useState(value);
  const timer = useRef(0);
  useEffect(() => {
    timer.current = window.setTimeout(() => setSettled(() => value), ms);
    return () => clearTimeout(timer.current);
  }, [value, ms]);
  return settled;
}
