import { beforeEach, expect, test, vi } from "vitest";
import type { Topology } from "../documents";

const { checkPage } = vi.hoisted(() => ({ checkPage: vi.fn() }));
vi.mock("../live", () => ({ checkPage }));

const { arrange, covers, placement } = await import("./placement");

class FakeWorker {
  static made: FakeWorker[] = [];
  onerror: (() => void) | null = null;
  onmessageerror: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  received = 0;
  isTerminated = false;

  constructor() {
    FakeWorker.made.push(this);
  }

  postMessage(): void {
    this.received += 1;
  }

  terminate(): void {
    this.isTerminated = true;
  }
}

function network(count: number): Topology {
  return {
    is_complete: true,
    switches: Array.from({ length: count }, (_, at) => ({ dpid: String(at).padStart(16, "0"), name: null, hosts: 0 })),
    links: [],
    blocked_ports: [],
    benches: 0,
  };
}

beforeEach(() => {
  FakeWorker.made = [];
  checkPage.mockClear();
  vi.stubGlobal("Worker", FakeWorker);
});

test("a network is arranged without the thread if that fails, and the page is checked", () => {
  arrange(network(3), "auto", true);
  const [worker] = FakeWorker.made;
  expect(covers(placement.get(), network(3))).toBe(false);
  worker?.onerror?.();
  expect(worker?.isTerminated).toBe(true);
  expect(covers(placement.get(), network(3))).toBe(true);
  expect(checkPage).toHaveBeenCalledTimes(1);

  arrange(network(9), "ring", true);
  expect(FakeWorker.made).toHaveLength(2);
  FakeWorker.made[1]?.onmessageerror?.();
  expect(covers(placement.get(), network(9))).toBe(true);
});

test("what was asked for while the thread worked is arranged after its failure", () => {
  arrange(network(20), "auto", true);
  arrange(network(30), "auto", true);
  FakeWorker.made[0]?.onerror?.();
  expect(covers(placement.get(), network(20))).toBe(true);
  expect(FakeWorker.made[1]?.received).toBe(1);
  FakeWorker.made[1]?.onerror?.();
  expect(covers(placement.get(), network(30))).toBe(true);
});
