import { beforeEach, expect, test, vi } from "vitest";
import { handleKey } from "./keys";

const map = { pan: vi.fn(), zoom: vi.fn(), fit: vi.fn(), next: vi.fn(() => "b") };
const actions = { select: vi.fn(), open: vi.fn() };
const selection = { kind: "switch", id: "a" } as const;

type Modifiers = Partial<Record<"shiftKey" | "ctrlKey" | "altKey" | "metaKey", boolean>>;

const OF_BROWSER: Modifiers[] = [{ ctrlKey: true }, { altKey: true }, { metaKey: true }];

function press(key: string, modifiers: Modifiers = {}): boolean {
  return handleKey({ key, shiftKey: false, ctrlKey: false, altKey: false, metaKey: false, ...modifiers }, map, selection, actions);
}

beforeEach(() => {
  vi.clearAllMocks();
});

test("keys select, open, move and zoom", () => {
  expect(["ArrowLeft", "Enter", "Escape", "+", "-", "0"].every((key) => press(key))).toBe(true);
  expect(actions.select.mock.calls).toEqual([[{ kind: "switch", id: "b" }], [null]]);
  expect(actions.open).toHaveBeenCalledWith(selection);
  expect([map.zoom.mock.calls.length, map.fit.mock.calls.length]).toEqual([2, 1]);
  expect(press("ArrowUp", { shiftKey: true })).toBe(true);
  expect(map.pan).toHaveBeenCalledWith(-0, 60);
});

test("keys of the browser are left to it", () => {
  expect([press("Tab"), press("a")]).toEqual([false, false]);
  for (const modifiers of OF_BROWSER) {
    for (const key of ["+", "-", "0", "ArrowLeft", "Enter"]) expect(press(key, modifiers)).toBe(false);
  }
  expect(map.next).not.toHaveBeenCalled();
  expect(map.zoom).not.toHaveBeenCalled();
});
