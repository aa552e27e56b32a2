//! What a request costs: no allocation.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::alloc::System;
use std::time::Duration;

use sluice_bench::{Buffering, Load, Plan, null, run};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations of a run with loops of `ms`, in the generator, the null responder and all around them; and requests.
fn cost(plan: &Plan, ms: u64) -> (usize, u64) {
    let before = Region::new(ALLOCATOR);
    let plan = Plan { loop_time: Duration::from_millis(ms), ..plan.clone() };
    let sent = run(&plan, &mut ()).unwrap().counts.sent;
    let change = before.change();
    (change.allocations + change.reallocations, sent)
}

#[test]
fn a_request_and_its_answer_allocate_nothing() {
    let null = support::null(null::ReplyContent::BufferId);
    for load in [Load::Window(64), Load::Unlimited, Load::Rate(50_000.0)] {
        let plan = Plan { load, kept: Buffering::Buffered, ..support::plan(null.addr()) };
        let (short, few) = cost(&plan, 20);
        let (long, many) = cost(&plan, 400);
        assert!(many > few + 10_000, "{few} and {many} requests");
        let more = long.saturating_sub(short) as u64;
        // The live display looks in ten times a second; a buffer may still grow once per switch.
        assert!(more < 100, "{more} allocations more for {} requests more", many - few);
    }
    null.stop().unwrap();
}
