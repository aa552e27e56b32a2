//! `FLOW_REMOVED`: a rule is gone. §7.4.2.

use super::codec::versions::*;
use super::codec::{Codec, Encoding};
use super::counter_fields::{CountFields, DurationFields};
use super::matching::{Match, Nxm};
use super::oxs::Stats;
use super::reader::Reader;
use super::rows::{codes, record};
use crate::{EncodeError, Encoder, FlowRemovedView, Result};

codes! {
    /// Why a rule is gone. §7.4.2.
    pub struct FlowRemovedReason(u8);
    IDLE_TIMEOUT = 0, V1_0, "No packet came for so long.";
    HARD_TIMEOUT = 1, V1_0, "Its time was over.";
    DELETE = 2, V1_0, "A `FLOW_MOD` deleted it.";
    GROUP_DELETE = 3, V1_1, "Its group was deleted.";
    METER_DELETE = 4, V1_4, "Its meter was deleted.";
    EVICTION = 5, V1_4, "The table was full.";
}

record! {
    /// A rule that is gone, and what became of it. §7.4.2.
    #[derive(Default)]
    pub struct FlowRemoved: "flow_removed", in place by FlowRemovedView::take {
        /// The controller's own mark.
        pub cookie: u64,
        /// Its priority.
        pub priority: u16,
        /// Why it is gone.
        pub reason: FlowRemovedReason,
        /// Its table. Since 1.1.
        pub table_id: u8,
        /// Its idle timeout, seconds.
        pub idle_timeout: u16,
        /// Its hard timeout, seconds. Since 1.2.
        pub hard_timeout: u16,
        /// What it matched.
        pub matching: Match,
        /// How long it lived, and how many packets and bytes it matched. Before 1.5 just these.
        pub stats: Stats,
    }
    V1_0 => [
        matching, cookie, priority, reason, pad 1, stats by DurationFields, idle_timeout, pad 2,
        stats by CountFields,
    ]
    V1_1 => [
        cookie, priority, reason, table_id, stats by DurationFields, idle_timeout, pad 2, stats by CountFields,
        matching,
    ]
    V1_2..=V1_4 => [
        cookie, priority, reason, table_id, stats by DurationFields, idle_timeout, hard_timeout,
        stats by CountFields, matching,
    ]
    V1_5.. => [
        table_id, reason, priority, idle_timeout, hard_timeout, cookie, matching, stats,
    ]
}

record! {
    /// `NXT_FLOW_REMOVED`: the same in Nicira's form.
    #[derive(Default)]
    pub struct NxFlowRemoved: "nx_flow_removed" {
        /// The controller's own mark.
        pub cookie: u64,
        /// Its priority.
        pub priority: u16,
        /// Why it is gone.
        pub reason: FlowRemovedReason,
        /// Its table, if the switch tells.
        pub table_id: Option<u8>,
        /// Its idle timeout, seconds.
        pub idle_timeout: u16,
        /// What it matched.
        pub matching: Match,
        /// How long it lived, and how many packets and bytes it matched.
        pub stats: Stats,
    }
    V1_0.. => [
        cookie, priority, reason, table_id as PlusOne, stats by DurationFields, idle_timeout, sized,
        stats by CountFields, matching in sized as Nxm, align 0,
    ]
}

/// A number that is one more on the wire, where 0 says that it is not known.
pub(crate) struct PlusOne;

macro_rules! plus_one {
    ($($t:ty),*) => {$(
        impl Encoding<Option<$t>> for PlusOne {
            fn parse(r: &mut Reader<'_>) -> Result<Option<$t>> {
                Ok(<$t>::parse(r)?.checked_sub(1))
            }

            fn encode(value: &Option<$t>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
                let (what, version) = ("number of all ones", out.version());
                let too_large = EncodeError { what, version, needs: None };
                value.map_or(Some(0), |n| n.checked_add(1)).ok_or(too_large)?.encode(out)
            }
        }
    )*};
}

plus_one!(u8, u16);
