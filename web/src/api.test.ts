import { expect, test } from "vitest";
import { isToken } from "./api";

test("a token has only visible characters of ASCII", () => {
  expect(["abc", "sluice_1-2.3~"].every(isToken)).toBe(true);
  expect(["", "a b", "a\nb", "tök", "\u2013", "a\u200b"].some(isToken)).toBe(false);
});
