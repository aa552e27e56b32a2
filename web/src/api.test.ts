import { afterEach, expect, test, vi } from "vitest";
import { change, get, isToken } from "./api";

afterEach(() => vi.unstubAllGlobals());

test("a token has only visible characters of ASCII", () => {
  expect(["abc", "sluice_1-2.3~"].every(isToken)).toBe(true);
  expect(["", "a b", "a\nb", "tök", "\u2013", "a\u200b"].some(isToken)).toBe(false);
});

test("an answer that is cut off counts as none", async () => {
  vi.stubGlobal("sessionStorage", { getItem: () => null });
  vi.stubGlobal("fetch", () => Promise.resolve(new Response('{"switches": [')));
  await expect(get("/v1/topology")).rejects.toMatchObject({ status: 0, isUnreachable: true });
  await expect(change("DELETE", "/v1/static/flows/a")).rejects.toMatchObject({ status: 0 });
});
