//! What a message costs to read: no more memory than a small multiple of its octets, whatever is in them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::alloc::System;
use std::collections::HashSet;

use sluice_openflow::model::Message;
use sluice_openflow::{FieldId, Frame};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Octets that are ever asked for while a message is read, for each of its own; so no more are held at any time.
const GAIN_MAX: usize = 32;

/// What small things may take besides: a list starts with room for four.
const BASE: usize = 4 << 10;

/// Fails if `octets` take too much to read; returns how many are taken for each.
fn gain(origin: &str, octets: &[u8]) -> usize {
    let Ok(frame) = Frame::new(octets) else { return 0 };
    let region = Region::new(ALLOCATOR);
    let read = Message::parse(frame);
    let change = region.change();
    drop(read);
    let asked = change.bytes_allocated;
    let most = GAIN_MAX * octets.len() + BASE;
    assert!(asked <= most, "{origin}: {asked} octets for {}", octets.len());
    asked.saturating_sub(BASE) / octets.len()
}

/// One after the other in one test, since what is counted is that of all threads.
#[test]
fn a_message_takes_a_small_multiple_of_its_octets() {
    let (mut most, mut which, mut large, mut kinds) = (0, String::new(), 0, HashSet::new());
    let mut try_one = |origin: &str, octets: &[u8]| {
        let gain = gain(origin, octets);
        if gain > most {
            (most, which) = (gain, origin.to_owned());
        }
    };
    // The index of fields is made once, at the first of them.
    assert!(FieldId::from_name("eth_dst").is_some_and(|id| id.row().is_some()));
    for said in support::said::all() {
        try_one(&said.origin, &said.octets);
        let key = (said.octets[0], said.octets[1], said.octets.get(8..18).map(<[u8]>::to_vec));
        if !kinds.insert(key) {
            continue;
        }
        for at in (8..said.octets.len() - said.octets.len() % 2).step_by(2) {
            for word in [0, 4, 8, 0xffff_u16] {
                let mut octets = said.octets.clone();
                octets[at..at + 2].copy_from_slice(&word.to_be_bytes());
                try_one(&said.origin, &octets);
            }
        }
        for period in [4, 8, 16, 24, 32, 40, 64] {
            if let Some(octets) = swollen(&said.octets, period) {
                try_one(&said.origin, &octets);
                large += usize::from(Frame::new(&octets).and_then(Message::parse).is_ok());
            }
        }
    }
    assert!(large > 500, "only {large} messages of the largest size are read");
    println!("at most {most} octets for each, in {which}");
}

/// The same message with its last octets again and again up to the longest that there is; lengths of what ends with
/// the message grow with it.
fn swollen(octets: &[u8], period: usize) -> Option<Vec<u8>> {
    let tail = octets.get(octets.len().checked_sub(period)?.max(8)..)?;
    let mut all = octets.to_vec();
    while u16::try_from(all.len() + period).is_ok() && tail.len() == period {
        all.extend(tail);
    }
    for at in (2..octets.len() - 1).step_by(2) {
        let word = usize::from(u16::from_be_bytes([octets[at], octets[at + 1]]));
        // Counted from the start of what the length is the second word of, from itself, or from behind itself.
        if let Some(start) = [at - 2, at, at + 2].into_iter().find(|s| s + word == octets.len()) {
            let len = u16::try_from(all.len() - start).unwrap();
            all[at..at + 2].copy_from_slice(&len.to_be_bytes());
        }
    }
    Some(all)
}
