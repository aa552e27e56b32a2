//! Flow entries whose timeouts have passed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_emu::live::RecordedMessage;
use sluice_openflow::{HEADER_LEN, RawMessage, view};

use crate::network::messages;

/// How many flow entries have expired by `now`, if the switches have `present` of those that the messages add.
///
/// These are the ones whose idle or hard timeout has passed, and no more than are missing: an idle timeout begins again with each packet.
pub(super) fn expired_entries(messages: &[RecordedMessage], now: Instant, present: usize) -> usize {
    let mut entries: BTreeMap<(usize, &[u8]), Option<Instant>> = BTreeMap::new();
    for message in messages.iter().filter(|message| messages::is_flow_entry(message)) {
        // Without the transaction id in the header, by which equal messages differ.
        let body = message.bytes.get(HEADER_LEN..).unwrap_or_default();
        // The one that was added last counts: it replaces an equal one.
        entries.insert((message.switch, body), expiry(message));
    }
    let passed = entries.values().flatten().filter(|expiry| **expiry <= now).count();
    passed.min(entries.len().saturating_sub(present))
}

/// When a flow entry expires if no packet matches it; `None` if it has no timeout.
fn expiry(message: &RecordedMessage) -> Option<Instant> {
    let flow_mod = view::FlowMod::new(RawMessage::new(&message.bytes).ok()?).ok()?;
    let timeouts = [flow_mod.idle_timeout, flow_mod.hard_timeout];
    let first = timeouts.into_iter().filter(|seconds| *seconds > 0).min()?;
    Some(message.at + Duration::from_secs(first.into()))
}

/// The warning of a number of flow entries that does not show the capacity, since others have expired.
pub(super) fn warning(expired: usize) -> Option<String> {
    (expired > 0).then(|| {
        format!(
            "{expired} flow entries expired while others were added, since the controller gives them a timeout: the number of those that are left depends on the rate and the timeout, and the capacity may be greater"
        )
    })
}

#[cfg(test)]
mod tests {
    use sluice_emu::live::MessageSender;
    use sluice_io::clock;
    use sluice_openflow::{FlowMod, FlowModCommand, Version};

    use super::*;

    /// A flow entry that is added at a time, with the cookie `n`.
    fn added(at: Instant, n: u64, idle_timeout: u16, hard_timeout: u16) -> RecordedMessage {
        let flow_mod = FlowMod { cookie: n, idle_timeout, hard_timeout, ..FlowMod::default() };
        recorded(at, &flow_mod)
    }

    fn recorded(at: Instant, flow_mod: &FlowMod) -> RecordedMessage {
        let bytes = flow_mod.to_vec(Version::V1_3, 1).unwrap();
        RecordedMessage { at, switch: 0, sender: MessageSender::Controller, bytes }
    }

    #[test]
    fn entries_that_are_missing_after_their_timeout_have_expired() {
        let start = clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // One per second, with an idle timeout of 5 s: at 9 s, those of the seconds 0 to 4 have expired.
        let messages: Vec<_> = (0..10).map(|n| added(at(n), n, 5, 0)).collect();
        assert_eq!(expired_entries(&messages, at(9), 5), 5);
        // Packets have matched two of them.
        assert_eq!(expired_entries(&messages, at(9), 7), 3);
        assert_eq!(expired_entries(&messages, at(4), 10), 0);
        let hard: Vec<_> = (0..10).map(|n| added(at(n), n, 60, 2)).collect();
        assert_eq!(expired_entries(&hard, at(9), 2), 8);
    }

    #[test]
    fn entries_that_are_missing_for_another_reason_have_not_expired() {
        let start = clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // Deleted or refused.
        let permanent: Vec<_> = (0..10).map(|n| added(at(n), n, 0, 0)).collect();
        assert_eq!(expired_entries(&permanent, at(100), 3), 0);
        // Two messages of the same entry, which is replaced.
        let twice = [added(at(0), 1, 5, 0), added(at(4), 1, 5, 0)];
        assert_eq!(expired_entries(&twice, at(6), 1), 0);
        assert_eq!(expired_entries(&twice, at(9), 0), 1);
        let deletion = FlowMod { command: FlowModCommand::DELETE, ..FlowMod::default() };
        assert_eq!(expired_entries(&[recorded(at(0), &deletion)], at(9), 0), 0);
    }
}
