/** Reads documents regularly while the window is shown. */
import { Value } from "./store";

/** Whether the window is shown: nothing is read, and no timer runs, while it is hidden. */
export const isVisible = new Value(true);

/** Keeps `isVisible` current. */
export function followVisibility(): void {
  const update = (): void => isVisible.set(!document.hidden);
  document.addEventListener("visibilitychange", update);
  update();
}

/** Calls `read` now, and again `intervalMs` after each reading, while the window is shown, until the returned function is called. With `null`, it is called once. */
export function repeat(read: () => Promise<void>, intervalMs: number | null): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let due: number | null = 0;
  let isReading = false;
  let isOver = false;
  const plan = (): void => {
    clearTimeout(timer);
    if (isOver || isReading || due === null || !isVisible.get()) return;
    const wait = due - Date.now();
    if (wait <= 0) void run();
    else timer = setTimeout(() => void run(), wait);
  };
  const run = async (): Promise<void> => {
    isReading = true;
    try {
      await read();
    } finally {
      isReading = false;
      due = intervalMs === null ? null : Date.now() + intervalMs;
      plan();
    }
  };
  const unsubscribe = isVisible.subscribe(plan);
  plan();
  return () => {
    isOver = true;
    clearTimeout(timer);
    unsubscribe();
  };
}
