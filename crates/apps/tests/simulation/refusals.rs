//! Switches that refuse flow entries: small tables, which fill up, and fields that cannot be matched.

use super::*;

/// One in so many networks has small tables.
const SMALL_TABLE_ODDS: u32 = 5;

/// One in so many networks has switches that cannot match a field.
const UNSUPPORTED_FIELD_ODDS: u32 = 5;

/// Backlog that the packets of all hosts fit into.
const BACKLOG_BYTES_MIN: usize = 256 << 10;

/// What the switches of a network refuse.
#[derive(Debug)]
pub(super) struct Refusals {
    /// Flow entries of a table.
    pub(super) table_entries_max: Option<usize>,
    /// The field that some switches cannot match, and these switches.
    unsupported: Option<(FieldId, Vec<usize>)>,
    /// Which fields flow entries match.
    pub(super) matching: Matching,
}

impl Refusals {
    /// None if backlogs have small limits: packets that the controller forwards one by one may then be dropped.
    pub(super) fn new(seed: u64, n_switches: usize, conditions: &NetworkConditions) -> Self {
        if conditions.backlog_bytes_max < BACKLOG_BYTES_MIN {
            return Self { table_entries_max: None, unsupported: None, matching: Matching::Pair };
        }
        let mut rng = Rng::new(seed.wrapping_mul(17) ^ 0x7ab1e);
        let is_small = rng.below(SMALL_TABLE_ODDS) == 0;
        let table_entries_max = is_small.then(|| 8 + rng.below(16) as usize);
        let is_unsupported = rng.below(UNSUPPORTED_FIELD_ODDS) == 0;
        let matching = if rng.below(4) == 0 { Matching::FiveTuple } else { Matching::Pair };
        let field = if rng.below(2) == 0 { FieldId::ETH_SRC } else { FieldId::IP_PROTO };
        let mut switches: Vec<_> = (0..n_switches).filter(|_| rng.below(2) == 0).collect();
        // Only its own flow entries are simpler, unless a path passes through it.
        if rng.below(2) == 0 {
            switches = vec![pick(&mut rng, n_switches)];
        }
        let unsupported = is_unsupported.then_some((field, switches));
        Self { table_entries_max, unsupported, matching }
    }

    /// Whether switches may refuse flow entries.
    pub(super) fn are_possible(&self) -> bool {
        self.table_entries_max.is_some() || self.unsupported.is_some()
    }

    /// Has the switches refuse the field.
    pub(super) fn apply(&self, net: &mut ChainSimulation) {
        let (_, data_plane) = net.data_plane_mut();
        if let Some((field, switches)) = &self.unsupported {
            for &switch in switches {
                data_plane.set_unsupported_fields(switch, vec![*field]);
            }
        }
    }
}
