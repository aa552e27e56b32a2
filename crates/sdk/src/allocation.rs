//! Who may use which cookies, priorities, meters, groups and tables of the switches: one list of all owners, in which no two
//! overlap.
//!
//! The owners that come with Sluice are in [`ALLOCATIONS`]; their flow entries are in [`flow_space`](crate::flow_space).
//! Applications of other crates declare theirs as [`Application::ALLOCATION`](crate::Application::ALLOCATION) and are added when
//! they are registered, which fails if something is allocated already. `docs/flow-entries.md` has the list as a table.

use std::fmt;
use std::ops::RangeInclusive;

use crate::flow_space::{
    BLOCKED_PORTS, EntryKind, GROUP_STREAMS, LEARNED, LINK_PROBES, MISS_LIMITS, PATHS,
    PROBE_LIMITS, QUARANTINE, STATIC, TABLE_MISS, TREE,
};

/// What one owner uses in switches. Whatever it does not name, it does not use; [table 0](TABLE_0) is everybody's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Kinds of flow entries, each with cookie and priorities.
    pub entries: &'static [EntryKind],
    /// Meters.
    pub meters: MeterIds,
    /// Group ids.
    pub groups: Option<RangeInclusive<u32>>,
    /// Flow tables that only this owner writes to.
    pub tables: Option<RangeInclusive<u8>>,
}

/// The table in which a packet begins. All owners write to it, each at its own priorities.
pub const TABLE_0: u8 = 0;

/// Meter ids of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeterIds {
    /// It uses no meters.
    None,
    /// As many as it needs, from the highest id that a switch has downwards.
    HighestFirst,
    /// These.
    Range(RangeInclusive<u32>),
}

impl Allocation {
    /// Nothing.
    pub const NONE: Self =
        Self { entries: &[], meters: MeterIds::None, groups: None, tables: None };

    /// Flow entries, and nothing else.
    pub const fn of_entries(entries: &'static [EntryKind]) -> Self {
        Self { entries, ..Self::NONE }
    }
}

/// What `topology` uses.
pub const TOPOLOGY: Allocation = Allocation::of_entries(&[LINK_PROBES]);

/// What `forwarding` uses.
pub const FORWARDING: Allocation =
    Allocation::of_entries(&[BLOCKED_PORTS, PATHS, GROUP_STREAMS, TREE]);

/// What `limiter` uses.
pub const LIMITER: Allocation = Allocation {
    entries: &[PROBE_LIMITS, MISS_LIMITS],
    meters: MeterIds::HighestFirst,
    ..Allocation::NONE
};

/// What `learning` uses.
pub const LEARNING: Allocation = Allocation::of_entries(&[LEARNED]);

/// What the owners that come with Sluice use. `static` are entries that an operator adds through the API or the configuration,
/// `quarantine` those that keep the packets of quarantined hosts out of the network; `all` is what the applications write together.
pub const ALLOCATIONS: &[(&str, Allocation)] = &[
    ("topology", TOPOLOGY),
    ("forwarding", FORWARDING),
    ("limiter", LIMITER),
    ("learning", LEARNING),
    ("static", Allocation::of_entries(&[STATIC])),
    ("quarantine", Allocation::of_entries(&[QUARANTINE])),
    ("all", Allocation::of_entries(&[TABLE_MISS])),
];

/// What the owner of this name uses, if it comes with Sluice.
pub fn built_in(owner: &str) -> Option<&'static Allocation> {
    ALLOCATIONS.iter().find(|(name, _)| *name == owner).map(|(_, allocation)| allocation)
}

/// All owners, and what they use. No two overlap.
#[derive(Debug, Clone)]
pub struct Allocations(Vec<(&'static str, Allocation)>);

impl Default for Allocations {
    fn default() -> Self {
        Self(ALLOCATIONS.to_vec())
    }
}

impl Allocations {
    /// Adds what another owner uses.
    ///
    /// # Errors
    /// The first thing that another owner uses already, or that cannot be allocated.
    pub fn add(
        &mut self,
        owner: &'static str,
        allocation: Allocation,
    ) -> Result<(), AllocationError> {
        check_alone(owner, &allocation)?;
        for (other, allocated) in &self.0 {
            if let Some(resource) = overlap(&allocation, allocated) {
                return Err(AllocationError::Taken { owner, resource, by: other });
            }
        }
        self.0.push((owner, allocation));
        Ok(())
    }

    /// Checks that the priorities which `owner` is configured to use are not those of another owner of `others`.
    ///
    /// # Errors
    /// The owner that uses one of them.
    pub fn check_configured(
        &self,
        owner: &'static str,
        priorities: &RangeInclusive<u16>,
        is_considered: impl Fn(&str) -> bool,
    ) -> Result<(), AllocationError> {
        let others = self.0.iter().filter(|(other, _)| *other != owner && is_considered(other));
        for (by, allocated) in others {
            let mut fixed = allocated.entries.iter().filter(|kind| !kind.is_configurable);
            if let Some(kind) = fixed.find(|kind| intersects(&kind.priorities, priorities)) {
                let resource = Resource::Priorities(kind.priorities.clone());
                return Err(AllocationError::Taken { owner, resource, by });
            }
        }
        Ok(())
    }

    /// The owner of a flow entry with this cookie and priority; `None` for those of other programs.
    pub fn owner_of(&self, cookie: u64, priority: u16) -> Option<&'static str> {
        self.kinds()
            .find(|kind| kind.has_cookie(cookie) && kind.priorities.contains(&priority))
            .map(|kind| kind.application)
    }

    /// The kinds of flow entries of all owners.
    pub fn kinds(&self) -> impl Iterator<Item = &'static EntryKind> {
        self.0.iter().flat_map(|(_, allocation)| allocation.entries)
    }

    /// All owners.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Allocation)> {
        self.0.iter().map(|(owner, allocation)| (*owner, allocation))
    }
}

/// Something that can be allocated once only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// A cookie with its mask.
    Cookie(u64, u64),
    /// Priorities.
    Priorities(RangeInclusive<u16>),
    /// Meter ids.
    Meters(MeterIds),
    /// Group ids.
    Groups(RangeInclusive<u32>),
    /// Tables.
    Tables(RangeInclusive<u8>),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cookie(cookie, u64::MAX) => write!(f, "cookie {cookie:#x}"),
            Self::Cookie(cookie, mask) => write!(f, "cookie {cookie:#018x}/{mask:#x}"),
            Self::Priorities(range) => write!(f, "{}", numbers("priority", "priorities", range)),
            Self::Meters(MeterIds::Range(range)) => {
                write!(f, "{}", numbers("meter", "meters", range))
            }
            Self::Meters(_) => write!(f, "the highest meters of a switch"),
            Self::Groups(range) => write!(f, "{}", numbers("group", "groups", range)),
            Self::Tables(range) => write!(f, "{}", numbers("table", "tables", range)),
        }
    }
}

fn numbers<N: fmt::Display + PartialEq>(
    one: &str,
    several: &str,
    range: &RangeInclusive<N>,
) -> String {
    let (start, end) = (range.start(), range.end());
    if start == end { format!("{one} {start}") } else { format!("{several} {start} to {end}") }
}

/// Something that an owner cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocationError {
    /// Another owner uses it.
    Taken {
        /// Who wants it.
        owner: &'static str,
        /// What.
        resource: Resource,
        /// Who uses it, or something that overlaps with it.
        by: &'static str,
    },
    /// Flow entries that name another owner.
    NotOwn(&'static str, &'static str),
    /// A range without a number.
    Empty(&'static str, Resource),
    /// [`TABLE_0`] belongs to all.
    Table0(&'static str),
}

impl fmt::Display for AllocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { owner, resource, by } => {
                write!(f, "application \"{owner}\": {resource}: allocated to \"{by}\"")
            }
            Self::NotOwn(owner, other) => {
                write!(f, "application \"{owner}\" allocates flow entries for \"{other}\"")
            }
            Self::Empty(owner, resource) => {
                write!(f, "application \"{owner}\" allocates nothing: {resource}")
            }
            Self::Table0(owner) => {
                write!(f, "application \"{owner}\" allocates table 0, which all applications use")
            }
        }
    }
}

impl std::error::Error for AllocationError {}

/// What can be wrong with an allocation whatever others use.
fn check_alone(owner: &'static str, allocation: &Allocation) -> Result<(), AllocationError> {
    for kind in allocation.entries {
        if kind.application != owner {
            return Err(AllocationError::NotOwn(owner, kind.application));
        }
        if kind.priorities.is_empty() {
            return Err(AllocationError::Empty(
                owner,
                Resource::Priorities(kind.priorities.clone()),
            ));
        }
    }
    match allocation {
        Allocation { meters: MeterIds::Range(ids), .. } if ids.is_empty() => {
            Err(AllocationError::Empty(owner, Resource::Meters(allocation.meters.clone())))
        }
        Allocation { groups: Some(ids), .. } if ids.is_empty() => {
            Err(AllocationError::Empty(owner, Resource::Groups(ids.clone())))
        }
        Allocation { tables: Some(ids), .. } if ids.is_empty() => {
            Err(AllocationError::Empty(owner, Resource::Tables(ids.clone())))
        }
        Allocation { tables: Some(ids), .. } if ids.contains(&TABLE_0) => {
            Err(AllocationError::Table0(owner))
        }
        _ => Ok(()),
    }
}

/// The first thing of `wanted` that overlaps with something of another owner.
fn overlap(wanted: &Allocation, allocated: &Allocation) -> Option<Resource> {
    for kind in wanted.entries {
        for other in allocated.entries {
            if kind.shares_cookie_with(other) {
                return Some(Resource::Cookie(kind.cookie, kind.cookie_mask));
            }
            let is_shared = kind.is_configurable || other.is_configurable;
            if !is_shared && intersects(&kind.priorities, &other.priorities) {
                return Some(Resource::Priorities(kind.priorities.clone()));
            }
        }
    }
    let is_same_meter = match (&wanted.meters, &allocated.meters) {
        (MeterIds::Range(a), MeterIds::Range(b)) => intersects(a, b),
        (MeterIds::HighestFirst, MeterIds::HighestFirst) => true,
        // The highest ones only meet low ones in a switch with very few meters.
        _ => false,
    };
    if is_same_meter {
        return Some(Resource::Meters(wanted.meters.clone()));
    }
    let both = |a: &Option<RangeInclusive<u32>>, b: &Option<RangeInclusive<u32>>| {
        a.clone().filter(|a| b.as_ref().is_some_and(|b| intersects(a, b)))
    };
    if let Some(ids) = both(&wanted.groups, &allocated.groups) {
        return Some(Resource::Groups(ids));
    }
    let tables = wanted.tables.clone();
    let is_taken =
        |a: &RangeInclusive<u8>| allocated.tables.as_ref().is_some_and(|b| intersects(a, b));
    tables.filter(is_taken).map(Resource::Tables)
}

fn intersects<N: PartialOrd>(a: &RangeInclusive<N>, b: &RangeInclusive<N>) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACL: EntryKind = EntryKind::with_prefix("acl", *b"acl ", 1000..=1001);
    const NAT: EntryKind = EntryKind::with_prefix("nat", *b"nat ", 1001..=1002);
    const LIKE_PATHS: EntryKind = EntryKind::with_prefix("acl", *b"forw", 1000..=1000);
    const LIKE_TREE: EntryKind = EntryKind::with_prefix("acl", *b"acl ", 3..=4);
    #[expect(clippy::reversed_empty_ranges, reason = "a mistake that is reported")]
    const EMPTY: EntryKind = EntryKind::with_prefix("acl", *b"acl ", 9..=8);

    fn add(allocation: Allocation) -> String {
        let mut all = Allocations::default();
        all.add("nat", Allocation::of_entries(&[NAT])).unwrap();
        let other = Allocation {
            meters: MeterIds::Range(1..=5),
            groups: Some(10..=20),
            tables: Some(3..=4),
            ..Allocation::NONE
        };
        all.add("other", other).unwrap();
        all.add("acl", allocation).map_or_else(|error| error.to_string(), |()| "added".into())
    }

    /// Those that come with Sluice are added one after another, as those of other crates are. Permanent entries of several owners
    /// have one cookie, at priorities of their own.
    #[test]
    fn no_two_owners_that_come_with_sluice_use_the_same() {
        for (n, (owner, allocation)) in ALLOCATIONS.iter().enumerate() {
            assert_eq!(check_alone(owner, allocation), Ok(()));
            for (other, allocated) in &ALLOCATIONS[n + 1..] {
                assert_ne!(owner, other);
                match overlap(allocation, allocated) {
                    None => {}
                    Some(Resource::Cookie(cookie, _)) if cookie == TABLE_MISS.cookie => {
                        assert!(!intersects(&LINK_PROBES.priorities, &TABLE_MISS.priorities));
                    }
                    Some(resource) => panic!("{owner} and {other}: {resource}"),
                }
            }
        }
    }

    #[test]
    fn what_another_owner_uses_is_refused_and_named() {
        assert_eq!(add(Allocation::NONE), "added");
        for (kind, error) in [
            (&[ACL], "priorities 1000 to 1001: allocated to \"nat\""),
            (
                &[LIKE_PATHS],
                "cookie 0x666f727700000000/0xffffffff00000000: allocated to \"forwarding\"",
            ),
            (&[LIKE_TREE], "priorities 3 to 4: allocated to \"forwarding\""),
        ] {
            assert_eq!(add(Allocation::of_entries(kind)), format!("application \"acl\": {error}"));
        }
        let not_own = "application \"acl\" allocates flow entries for \"nat\"";
        assert_eq!(add(Allocation::of_entries(&[NAT])), not_own);
        let empty = "application \"acl\" allocates nothing: priorities 9 to 8";
        assert_eq!(add(Allocation::of_entries(&[EMPTY])), empty);
    }

    #[test]
    fn meters_groups_and_tables_are_allocated_once() {
        let none = Allocation::NONE;
        for (allocation, result) in [
            (Allocation { meters: MeterIds::Range(6..=9), ..none.clone() }, "added"),
            (
                Allocation { meters: MeterIds::Range(5..=9), ..none.clone() },
                "meters 5 to 9: allocated to \"other\"",
            ),
            (
                Allocation { meters: MeterIds::HighestFirst, ..none.clone() },
                "the highest meters of a switch: allocated to \"limiter\"",
            ),
            (Allocation { groups: Some(21..=22), ..none.clone() }, "added"),
            (
                Allocation { groups: Some(20..=20), ..none.clone() },
                "group 20: allocated to \"other\"",
            ),
            (Allocation { tables: Some(1..=2), ..none.clone() }, "added"),
            (
                Allocation { tables: Some(1..=3), ..none.clone() },
                "tables 1 to 3: allocated to \"other\"",
            ),
        ] {
            assert_eq!(add(allocation).trim_start_matches("application \"acl\": "), result);
        }
        let table_0 = "application \"acl\" allocates table 0, which all applications use";
        assert_eq!(add(Allocation { tables: Some(0..=1), ..none }), table_0);
    }

    #[test]
    fn a_configured_priority_is_not_that_of_an_application() {
        let mut all = Allocations::default();
        all.add("nat", Allocation::of_entries(&[NAT])).unwrap();
        let check = |start| all.check_configured("forwarding", &(start..=start + 2), |_| true);
        assert_eq!([check(998), check(1003)], [Ok(()), Ok(())]);
        let error = "application \"forwarding\": priorities 1001 to 1002: allocated to \"nat\"";
        assert_eq!(check(999).unwrap_err().to_string(), error);
        assert_eq!(all.check_configured("forwarding", &(999..=1001), |name| name != "nat"), Ok(()));
    }

    #[test]
    fn the_owner_of_a_flow_entry_is_known_from_its_cookie_and_priority() {
        let mut all = Allocations::default();
        all.add("nat", Allocation::of_entries(&[NAT])).unwrap();
        let owner = |cookie, priority| all.owner_of(cookie, priority);
        assert_eq!(owner(0x666f_7277_0000_0002, 100), Some("forwarding"));
        assert_eq!(owner(TABLE_MISS.cookie, 0), Some("all"));
        assert_eq!(owner(LINK_PROBES.cookie, 65_534), Some("topology"));
        assert_eq!(owner(NAT.cookie_with(7), 1002), Some("nat"));
        assert_eq!(owner(0x7374_6174_0000_0001, 40_000), Some("static"));
        assert_eq!([owner(0, 100), owner(0x1234, 1234), owner(NAT.cookie, 1)], [None; 3]);
    }
}
