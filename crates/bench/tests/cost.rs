//! Requests and replies do not allocate.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::alloc::System;
use std::time::Duration;

use sluice_bench::{Buffering, Load, Plan, null, run};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations in a run with loops of `ms` (load generator, null responder and everything around them), and requests sent.
fn cost(plan: &Plan, ms: u64) -> (usize, u64) {
    let before = Region::new(ALLOCATOR);
    let plan = Plan { loop_time: Duration::from_millis(ms), ..plan.clone() };
    let sent = run(&plan, &mut ()).unwrap().counts.sent;
    let change = before.change();
    (change.allocations + change.reallocations, sent)
}

#[test]
fn a_request_and_its_reply_do_not_allocate() {
    let null = support::null(null::ReplyContent::BufferId);
    for load in [Load::Window(64), Load::Unlimited, Load::Rate(50_000.0)] {
        let plan = Plan { load, buffering: Buffering::Buffered, ..support::plan(null.addr()) };
        let (short, few) = cost(&plan, 20);
        // On a busy machine a histogram may grow for longer latencies: the fewest of three runs count.
        let runs = (0..3).map(|_| cost(&plan, 400));
        let (long, many) = runs.min().unwrap();
        assert!(many > few + 10_000, "{few} and {many} requests");
        let more = long.saturating_sub(short) as u64;
        // Progress is read ten times per second; a buffer may still grow once per switch.
        assert!(more < 100, "{load:?}: {more} more allocations for {} more requests", many - few);
    }
    null.stop().unwrap();
}
