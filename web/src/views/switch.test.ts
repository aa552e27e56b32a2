import { h } from "preact";
import { renderToString } from "preact-render-to-string";
import { beforeEach, expect, test, vi } from "vitest";
import { ApiError } from "../api";
import type { SwitchDocument } from "../documents";

const documents = vi.hoisted(() => ({ ofSwitch: null as unknown, error: null as unknown }));

vi.stubGlobal("location", { hash: "#/switch/99" });
vi.stubGlobal("addEventListener", () => {});
vi.mock("../hooks", () => ({
  useDocument: (path: string) => ({ data: path === "/v1/switches/99" ? documents.ofSwitch : null, error: documents.error, reload: () => {} }),
  useTitle: () => {},
}));
// The form for entries is not shown, and reads what Node.js does not have.
vi.mock("../editor/editor", () => ({ FlowEditor: () => null }));

const { SwitchView } = await import("./switch");
const NOT_CONNECTED = new ApiError(404, "switch_not_connected", 'no switch with the name or datapath id "99" is connected');

function count(text: string, part: string): number {
  return text.split(part).length - 1;
}

beforeEach(() => {
  documents.ofSwitch = null;
  documents.error = NOT_CONNECTED;
});

test("that a switch is not connected is said once, with a link to the list", () => {
  const view = renderToString(h(SwitchView, {}));
  expect(count(view, 'role="alert"')).toBe(1);
  expect(view).toContain("No switch with the name or datapath id");
  expect(view).toContain('href="#/switches"');
  expect(view).not.toContain("Reading");
});

test("a switch that has disconnected keeps its view, and that is said once", () => {
  const session = { messages_received: 0, packet_ins_received: 0, errors_received: 0, backlog_bytes: 0 };
  documents.ofSwitch = { dpid: "99", name: "s1", openflow: "1.3", session, last_errors: [] } as unknown as SwitchDocument;
  const view = renderToString(h(SwitchView, {}));
  expect(count(view, 'role="alert"')).toBe(1);
  expect(view).toContain("Flow table");
});

test("other errors are shown where they occur", () => {
  documents.error = new ApiError(504, "no_answer", "the switch does not answer");
  expect(count(renderToString(h(SwitchView, {})), 'role="alert"')).toBe(3);
});
