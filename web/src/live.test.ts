import { expect, test, vi } from "vitest";
import { change } from "./api";
import { connection, start, storeError } from "./live";

test("after a change that has failed, the page reads at once whether the store can be written", async () => {
  let error: { operation: string; message: string } | null = null;
  const read: string[] = [];
  const answers: Record<string, () => unknown> = {
    "/v1/identity": () => ({ who: "local", role: "administer" }),
    "/v1/controller": () => ({ version: "1.0.0", store_error: error }),
    "/v1/topology": () => ({ is_complete: true, switches: [], links: [], blocked_ports: [], benches: 0 }),
    "/v1/events/history": () => ({ events: [], last_id: "1-0", lost: 0 }),
    "/v1/static/flows": () => ({ entries: [] }),
    "/v1/quarantines": () => ({ quarantines: [] }),
  };
  vi.stubGlobal("sessionStorage", { getItem: () => null });
  vi.stubGlobal("document", { hidden: false, addEventListener: () => {} });
  vi.stubGlobal("navigator", {});
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => {
    const document = path.split("?")[0] ?? "";
    read.push(document);
    if (init.method === "GET") return Promise.resolve(Response.json(answers[document]?.()));
    error = { operation: "write", message: "No space left on device" };
    return Promise.resolve(Response.json({ error: { code: "store_unavailable", message: "the store cannot be written" } }, { status: 503 }));
  });
  start();
  // All of what is declared: it would be read again after 50 s.
  await vi.waitFor(() => expect(read).toContain("/v1/quarantines"));
  expect([connection.get(), storeError.get()]).toEqual(["live", null]);
  await expect(change("PUT", "/v1/static/flows/a", {})).rejects.toMatchObject({ code: "store_unavailable" });
  await vi.waitFor(() => expect(storeError.get()).toMatchObject({ operation: "write" }));
});
