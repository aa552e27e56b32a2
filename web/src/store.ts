/** Values that views observe. */
import { useEffect, useState } from "preact/hooks";

export class Value<T> {
  private readonly observers = new Set<() => void>();

  constructor(private current: T) {}

  get(): T {
    return this.current;
  }

  set(value: T): void {
    if (value === this.current) return;
    this.current = value;
    for (const observer of [...this.observers]) observer();
  }

  subscribe(observer: () => void): () => void {
    this.observers.add(observer);
    return () => this.observers.delete(observer);
  }
}

/** Waits until a condition on values holds. */
export function until(holds: () => boolean, ...values: Pick<Value<unknown>, "subscribe">[]): Promise<void> {
  return new Promise((resolve) => {
    if (holds()) return resolve();
    const unsubscribe = values.map((value) => value.subscribe(() => {
      if (!holds()) return;
      unsubscribe.forEach((stop) => stop());
      resolve();
    }));
  });
}

/** The current value, in a view that is drawn again when it changes. */
export function useValue<T>(value: Value<T>): T {
  const [current, setCurrent] = useState(() => value.get());
  useEffect(() => {
    setCurrent(() => value.get());
    return value.subscribe(() => setCurrent(() => value.get()));
  }, [value]);
  return current;
}
