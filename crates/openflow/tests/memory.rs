//! What a message costs to read: no more memory than a small multiple of its bytes, whatever is in them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::alloc::System;
use std::collections::HashSet;

use sluice_openflow::{FieldId, Message, RawMessage};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are ever asked for while a message is read, for each of its own; so no more are held at any time.
const GAIN_MAX: usize = 32;

/// What small things may take besides: a list starts with room for four.
const BASE: usize = 4 << 10;

/// Fails if `bytes` take too much to read; returns how many are taken for each.
fn gain(origin: &str, bytes: &[u8]) -> usize {
    let Ok(frame) = RawMessage::new(bytes) else { return 0 };
    let region = Region::new(ALLOCATOR);
    let read = Message::parse_raw(frame);
    let change = region.change();
    drop(read);
    let asked = change.bytes_allocated;
    let most = GAIN_MAX * bytes.len() + BASE;
    assert!(asked <= most, "{origin}: {asked} bytes for {}", bytes.len());
    asked.saturating_sub(BASE) / bytes.len()
}

/// One after the other in one test, since what is counted is that of all threads.
#[test]
fn a_message_takes_a_small_multiple_of_its_bytes() {
    let (mut most, mut which, mut large, mut kinds) = (0, String::new(), 0, HashSet::new());
    let mut try_one = |origin: &str, bytes: &[u8]| {
        let gain = gain(origin, bytes);
        if gain > most {
            (most, which) = (gain, origin.to_owned());
        }
    };
    // The index of fields is made once, at the first of them.
    assert!(FieldId::from_name("eth_dst").is_some_and(|id| id.row().is_some()));
    for said in support::said::all() {
        try_one(&said.origin, &said.bytes);
        let key = (said.bytes[0], said.bytes[1], said.bytes.get(8..18).map(<[u8]>::to_vec));
        if !kinds.insert(key) {
            continue;
        }
        for at in (8..said.bytes.len() - said.bytes.len() % 2).step_by(2) {
            for word in [0, 4, 8, 0xffff_u16] {
                let mut bytes = said.bytes.clone();
                bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
                try_one(&said.origin, &bytes);
            }
        }
        for period in [4, 8, 16, 24, 32, 40, 64] {
            if let Some(bytes) = swollen(&said.bytes, period) {
                try_one(&said.origin, &bytes);
                large += usize::from(RawMessage::new(&bytes).and_then(Message::parse_raw).is_ok());
            }
        }
    }
    assert!(large > 500, "only {large} messages of the largest size are read");
    println!("at most {most} bytes for each, in {which}");
}

/// The same message with its last bytes again and again up to the longest that there is; lengths of what ends with
/// the message grow with it.
fn swollen(bytes: &[u8], period: usize) -> Option<Vec<u8>> {
    let tail = bytes.get(bytes.len().checked_sub(period)?.max(8)..)?;
    let mut all = bytes.to_vec();
    while u16::try_from(all.len() + period).is_ok() && tail.len() == period {
        all.extend(tail);
    }
    for at in (2..bytes.len() - 1).step_by(2) {
        let word = usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        // Counted from the start of what the length is the second word of, from itself, or from behind itself.
        if let Some(start) = [at - 2, at, at + 2].into_iter().find(|s| s + word == bytes.len()) {
            let len = u16::try_from(all.len() - start).unwrap();
            all[at..at + 2].copy_from_slice(&len.to_be_bytes());
        }
    }
    Some(all)
}
