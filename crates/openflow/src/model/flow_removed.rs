//! `FLOW_REMOVED`: a flow entry expired or was deleted. §7.4.2.

use super::codec::versions::*;
use super::codec::{Codec, Encoding};
use super::counter_fields::{CountFields, DurationFields};
use super::matching::{BareMatch, Match};
use super::oxs::Stats;
use super::reader::Reader;
use super::rows::{codes, record};
use crate::view::FlowRemoved as FlowRemovedView;
use crate::{EncodeError, Encoder, Result};

codes! {
    /// `OFPRR_*`: why a flow entry was removed. §7.4.2.
    ///
    /// Open vSwitch sends all of them in every version.
    pub struct FlowRemovedReason(u8);
    IDLE_TIMEOUT = 0, V1_0, "Idle timeout exceeded.";
    HARD_TIMEOUT = 1, V1_0, "Hard timeout exceeded.";
    DELETE = 2, V1_0, "Deleted by a `FLOW_MOD`.";
    GROUP_DELETE = 3, V1_0, "Its group was deleted. In the specification since 1.1.";
    METER_DELETE = 4, V1_0, "Its meter was deleted. In the specification since 1.4.";
    EVICTION = 5, V1_0, "Evicted to make room in the table. In the specification since 1.4.";
}

record! {
    /// A flow entry expired or was deleted. §7.4.2.
    #[derive(Default)]
    pub struct FlowRemoved: "flow_removed", viewed by FlowRemovedView::take {
        /// Opaque identifier chosen by the controller.
        pub cookie: u64,
        /// Priority of the flow entry.
        pub priority: u16,
        /// Why it was removed.
        pub reason: FlowRemovedReason,
        /// Its table. Since 1.1.
        pub table_id: u8,
        /// Its idle timeout, seconds.
        pub idle_timeout: u16,
        /// Its hard timeout, seconds. Since 1.2; Open vSwitch sends it in 1.1 too, in bytes that are padding there.
        pub hard_timeout: u16,
        /// Its match.
        pub matching: Match,
        /// Its duration, packet count and byte count; in 1.5 further statistics are possible.
        pub stats: Stats,
    }
    V1_0 => [
        matching, cookie, priority, reason, pad 1, stats by DurationFields, idle_timeout, pad 2,
        stats by CountFields,
    ]
    V1_1..=V1_4 => [
        cookie, priority, reason, table_id, stats by DurationFields, idle_timeout, hard_timeout,
        stats by CountFields, matching,
    ]
    V1_5.. => [
        table_id, reason, priority, idle_timeout, hard_timeout, cookie, matching, stats,
    ]
}

record! {
    /// `NXT_FLOW_REMOVED`: a flow entry expired or was deleted, with Nicira's extensible match.
    #[derive(Default)]
    pub struct NxFlowRemoved: "nx_flow_removed" {
        /// Opaque identifier chosen by the controller.
        pub cookie: u64,
        /// Priority of the flow entry.
        pub priority: u16,
        /// Why it was removed.
        pub reason: FlowRemovedReason,
        /// Its table, if known.
        pub table_id: Option<u8>,
        /// Its idle timeout, seconds.
        pub idle_timeout: u16,
        /// Its match.
        pub matching: Match,
        /// Its duration, packet count and byte count.
        pub stats: Stats,
    }
    V1_0.. => [
        cookie, priority, reason, table_id as PlusOne, stats by DurationFields, idle_timeout, sized,
        stats by CountFields, matching in sized as BareMatch, align 0,
    ]
}

/// An optional number, encoded incremented by one; 0 is `None`.
pub(crate) struct PlusOne;

macro_rules! plus_one {
    ($($t:ty),*) => {$(
        impl Encoding<Option<$t>> for PlusOne {
            fn parse(r: &mut Reader<'_>) -> Result<Option<$t>> {
                Ok(<$t>::parse(r)?.checked_sub(1))
            }

            fn encode(value: &Option<$t>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
                let (what, version) = ("largest value of an optional number", out.version());
                let too_large = EncodeError::new(what, version, None);
                value.map_or(Some(0), |n| n.checked_add(1)).ok_or(too_large)?.encode(out)
            }
        }
    )*};
}

plus_one!(u8, u16);
