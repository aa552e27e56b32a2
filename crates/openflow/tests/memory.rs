//! Parsing a message allocates at most a small multiple of its length, whatever it contains.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::alloc::System;
use std::collections::BTreeSet;

use sluice_openflow::{FieldId, Message, RawMessage};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Maximum of bytes allocated in total per byte of the message.
const RATIO_MAX: usize = 32;

/// Bytes that may be allocated in addition: small lists start with a capacity of four.
const ALLOWANCE: usize = 4 << 10;

/// Parses `bytes`, and fails if that allocates too much; returns the bytes allocated per byte.
fn allocation_ratio(origin: &str, bytes: &[u8]) -> usize {
    let Ok(raw) = RawMessage::new(bytes) else { return 0 };
    let region = Region::new(ALLOCATOR);
    let parsed = Message::parse_raw(raw);
    let change = region.change();
    drop(parsed);
    let allocated = change.bytes_allocated;
    let max = RATIO_MAX * bytes.len() + ALLOWANCE;
    assert!(allocated <= max, "{origin}: {allocated} bytes for {}", bytes.len());
    allocated.saturating_sub(ALLOWANCE) / bytes.len()
}

/// A single test, since allocations are counted for all threads.
#[test]
fn parsing_allocates_at_most_a_small_multiple_of_the_message() {
    let (mut highest, mut highest_origin) = (0, String::new());
    let (mut parsed_large, mut seen) = (0, BTreeSet::new());
    let mut try_one = |origin: &str, bytes: &[u8]| {
        let ratio = allocation_ratio(origin, bytes);
        if ratio > highest {
            (highest, highest_origin) = (ratio, origin.to_owned());
        }
    };
    // Initialises the index of fields, whose allocation must not be counted.
    assert!(FieldId::from_name("eth_dst").is_some_and(|id| id.row().is_some()));
    for golden in support::golden_message::golden_messages() {
        try_one(&golden.origin, &golden.bytes);
        let key = (golden.bytes[0], golden.bytes[1], golden.bytes.get(8..18).map(<[u8]>::to_vec));
        if !seen.insert(key) {
            continue;
        }
        for at in (8..golden.bytes.len() - golden.bytes.len() % 2).step_by(2) {
            for word in [0, 4, 8, 0xffff_u16] {
                let mut bytes = golden.bytes.clone();
                bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
                try_one(&golden.origin, &bytes);
            }
        }
        for period in [4, 8, 16, 24, 32, 40, 64] {
            if let Some(bytes) = extended_to_maximum(&golden.bytes, period) {
                try_one(&golden.origin, &bytes);
                parsed_large +=
                    usize::from(RawMessage::new(&bytes).and_then(Message::parse_raw).is_ok());
            }
        }
    }
    assert!(parsed_large > 500, "only {parsed_large} messages of maximum length were valid");
    println!("at most {highest} bytes allocated per byte, for {highest_origin}");
}

/// Repeats the last `period` bytes up to the maximum length of a message, and adjusts the lengths of structures that end
/// with the message.
fn extended_to_maximum(bytes: &[u8], period: usize) -> Option<Vec<u8>> {
    let tail = bytes.get(bytes.len().checked_sub(period)?.max(8)..)?;
    let mut all = bytes.to_vec();
    while u16::try_from(all.len() + period).is_ok() && tail.len() == period {
        all.extend(tail);
    }
    for at in (2..bytes.len() - 1).step_by(2) {
        let word = usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        // A length may count from the word before it, from itself, or from the byte after it.
        if let Some(start) = [at - 2, at, at + 2].into_iter().find(|s| s + word == bytes.len()) {
            let len = u16::try_from(all.len() - start).unwrap();
            all[at..at + 2].copy_from_slice(&len.to_be_bytes());
        }
    }
    Some(all)
}
