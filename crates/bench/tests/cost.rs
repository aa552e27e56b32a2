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
    for load in [Load::Window(64), Load::Unlimited, Load::Rate(200_000.0)] {
        let plan = Plan { load, buffering: Buffering::Buffered, ..support::plan(null.addr()) };
        // Each run also looks for the process of the controller among those of the machine, which allocates for every open file, so
        // that other tests change the number. And histograms grow with the latencies. The fewest of three runs count.
        let fewest = |ms| (0..3).map(|_| cost(&plan, ms)).min().unwrap();
        let ((short, few), (long, many)) = (fewest(20), fewest(400));
        assert!(many > few + 10_000, "{few} and {many} requests");
        let more = long.saturating_sub(short) as u64;
        // One for each request, or for each read of a connection, would be many more.
        assert!(
            more < (many - few) / 100,
            "{load:?}: {more} more allocations for {} more requests",
            many - few
        );
    }
    null.stop().unwrap();
}
