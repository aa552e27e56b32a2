import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { followVisibility, isVisible, repeat } from "./polling";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  isVisible.set(true);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("while the window is hidden, nothing is read and no timer runs", async () => {
  const read = vi.fn(() => Promise.resolve());
  const stop = repeat(read, 1000);
  await vi.advanceTimersByTimeAsync(2500);
  expect(read).toHaveBeenCalledTimes(3);
  isVisible.set(false);
  expect(vi.getTimerCount()).toBe(0);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(read).toHaveBeenCalledTimes(3);
  isVisible.set(true);
  expect(read).toHaveBeenCalledTimes(4);
  stop();
  await vi.advanceTimersByTimeAsync(10_000);
  expect([read.mock.calls.length, vi.getTimerCount()]).toEqual([4, 0]);
});

test("a window that is hidden for a moment is not read more often", async () => {
  const read = vi.fn(() => Promise.resolve());
  const stop = repeat(read, 1000);
  await vi.advanceTimersByTimeAsync(100);
  isVisible.set(false);
  isVisible.set(true);
  await vi.advanceTimersByTimeAsync(800);
  expect(read).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(100);
  expect(read).toHaveBeenCalledTimes(2);
  stop();
});

test("without an interval, a document is read once, when the window is shown for the first time", async () => {
  isVisible.set(false);
  const read = vi.fn(() => Promise.resolve());
  const stop = repeat(read, null);
  await vi.advanceTimersByTimeAsync(1000);
  expect(read).not.toHaveBeenCalled();
  for (const isShown of [true, false, true]) isVisible.set(isShown);
  await vi.advanceTimersByTimeAsync(1000);
  isVisible.set(false);
  isVisible.set(true);
  expect(read).toHaveBeenCalledTimes(1);
  stop();
});

test("a window that was opened in the background counts as hidden until it is shown", () => {
  const listeners: (() => void)[] = [];
  const page = { hidden: true, addEventListener: (_: string, listener: () => void) => listeners.push(listener) };
  vi.stubGlobal("document", page);
  followVisibility();
  expect(isVisible.get()).toBe(false);
  page.hidden = false;
  listeners.forEach((listener) => listener());
  expect(isVisible.get()).toBe(true);
});
