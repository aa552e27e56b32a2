import { expect, test } from "vitest";
import { until, Value } from "./store";

test("a condition is awaited without a timer", async () => {
  const [a, b] = [new Value(0), new Value(0)];
  let isOver = false;
  const wait = until(() => a.get() + b.get() > 2, a, b).then(() => {
    isOver = true;
  });
  a.set(2);
  await Promise.resolve();
  expect(isOver).toBe(false);
  b.set(1);
  await wait;
  expect(isOver).toBe(true);
  await until(() => true, a);
});
