//! Cookies and priorities of the flow entries of all applications, in one place, so that no two collide.
//! `docs/flow-entries.md` has them as a table.

use std::ops::RangeInclusive;

/// Flow entries that an application writes for one purpose. The cookie shows in every list of flow entries whose they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryKind {
    /// The application.
    pub application: &'static str,
    /// The cookie, as far as [`cookie_mask`](Self::cookie_mask) is set. The application uses the other bits.
    pub cookie: u64,
    /// The bits of the cookie that all these entries have in common.
    pub cookie_mask: u64,
    /// Their priorities.
    pub priorities: RangeInclusive<u16>,
    /// Whether a configuration or an operator chooses among these priorities. If not, no other application uses any of them.
    pub is_configurable: bool,
}

impl EntryKind {
    /// Whether a cookie is that of such an entry.
    pub const fn has_cookie(&self, cookie: u64) -> bool {
        cookie & self.cookie_mask == self.cookie
    }

    /// The lowest of their priorities.
    pub const fn priority(&self) -> u16 {
        *self.priorities.start()
    }

    /// Entries of an application that comes with its own crate: the upper half of their cookies is `prefix`, four ASCII characters
    /// that show in every list of flow entries whose they are; the application uses the lower half. No other application uses
    /// the prefix or one of the priorities.
    ///
    /// Priorities from 7 to 65529 that `forwarding` is not configured to use are free.
    pub const fn with_prefix(
        application: &'static str,
        prefix: [u8; 4],
        priorities: RangeInclusive<u16>,
    ) -> Self {
        let cookie = (u32::from_be_bytes(prefix) as u64) << 32;
        Self::new(application, (cookie, HIGH_HALF), priorities)
    }

    /// The cookie with `low` in the bits that the application may use.
    pub const fn cookie_with(&self, low: u32) -> u64 {
        self.cookie | low as u64 & !self.cookie_mask
    }

    /// Whether a cookie can be that of both kinds.
    pub const fn shares_cookie_with(&self, other: &Self) -> bool {
        (self.cookie ^ other.cookie) & self.cookie_mask & other.cookie_mask == 0
    }

    const fn new(
        application: &'static str,
        (cookie, cookie_mask): (u64, u64),
        priorities: RangeInclusive<u16>,
    ) -> Self {
        Self { application, cookie, cookie_mask, priorities, is_configurable: false }
    }

    const fn configurable(
        application: &'static str,
        cookie: (u64, u64),
        priorities: RangeInclusive<u16>,
    ) -> Self {
        Self { is_configurable: true, ..Self::new(application, cookie, priorities) }
    }
}

/// Cookie of [permanent](crate::permanent) flow entries: `permanen` in ASCII.
const PERMANENT: (u64, u64) = (0x7065_726d_616e_656e, u64::MAX);

/// `limit` in ASCII.
const LIMIT: (u64, u64) = (0x006c_696d_6974_0000, u64::MAX);

/// The bits of a cookie of which the low half is free.
const HIGH_HALF: u64 = 0xffff_ffff_0000_0000;

/// Priorities that can be configured for the entries of `forwarding`. Those of an operator above it are between
/// `forwarding.priority` and the highest of these.
pub const CONFIGURABLE_PRIORITIES: RangeInclusive<u16> = 7..=65_529;

/// Blocks or meters the link probes of a port that sends too many: above the entries that send them to the controller.
pub const PROBE_LIMITS: EntryKind = EntryKind::new("limiter", LIMIT, 65_535..=65_535);

/// Sends link probes to the controller: above all that forward, which must not hide links.
pub const LINK_PROBES: EntryKind = EntryKind::new("topology", PERMANENT, 65_534..=65_534);

/// Drops what arrives at a port of an unmanaged segment for which another port forwards. The cookie is `segment` in ASCII.
pub const BLOCKED_PORTS: EntryKind =
    EntryKind::new("forwarding", (0x0073_6567_6d65_6e74, u64::MAX), 65_533..=65_533);

/// Drops what a quarantined host sends, and what is sent to it: above all that forwards packets of hosts. The cookie is `quar` in ASCII.
pub const QUARANTINE: EntryKind =
    EntryKind::new("quarantine", (0x7175_6172_0000_0000, HIGH_HALF), 65_532..=65_532);

/// Forwards the packets of a flow. The cookie is `forw` in ASCII.
pub const PATHS: EntryKind = EntryKind::configurable(
    "forwarding",
    (0x666f_7277_0000_0000, HIGH_HALF),
    CONFIGURABLE_PRIORITIES,
);

/// Forwards a stream of multicasts or broadcasts from an edge port. The cookie is `grou` in ASCII.
pub const GROUP_STREAMS: EntryKind = EntryKind::configurable(
    "forwarding",
    (0x6772_6f75_0000_0000, HIGH_HALF),
    CONFIGURABLE_PRIORITIES,
);

/// Forwards broadcasts and multicasts along the spanning tree; at the higher priorities drops those to reserved addresses, and
/// forwards those to groups without members and to single groups. The cookie is `tree` in ASCII.
pub const TREE: EntryKind = EntryKind::new("forwarding", (0x7472_6565_0000_0000, HIGH_HALF), 4..=6);

/// Blocks or meters a port that causes too many table misses; one of its hosts at the highest of these priorities; marks its
/// packets before that at the lowest.
pub const MISS_LIMITS: EntryKind = EntryKind::new("limiter", LIMIT, 1..=3);

/// Sends table misses to the controller.
pub const TABLE_MISS: EntryKind = EntryKind::new("all", PERMANENT, 0..=0);

/// Entries of `learning`, an alternative to `forwarding`. The cookie is `lear` in ASCII.
pub const LEARNED: EntryKind =
    EntryKind::configurable("learning", (0x6c65_6172_0000_0000, HIGH_HALF), 1..=65_531);

/// Entries that an operator has declared and Sluice keeps. The cookie is `stat` in ASCII. In table 0 their priorities are those that
/// applications leave; in other tables they may have any.
pub const STATIC: EntryKind =
    EntryKind::configurable("static", (0x7374_6174_0000_0000, HIGH_HALF), 0..=65_535);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::{ALLOCATIONS, MeterIds};

    fn kinds() -> Vec<&'static EntryKind> {
        ALLOCATIONS.iter().flat_map(|(_, allocation)| allocation.entries).collect()
    }

    #[test]
    fn no_two_kinds_have_a_priority_or_cookie_in_common() {
        for (n, a) in kinds().into_iter().enumerate() {
            for b in kinds().into_iter().skip(n + 1) {
                let is_apart = a.priorities.start() > b.priorities.end()
                    || b.priorities.start() > a.priorities.end();
                assert!(is_apart || a.is_configurable || b.is_configurable, "{a:?} {b:?}");
                let is_same = (a.cookie, a.cookie_mask) == (b.cookie, b.cookie_mask);
                assert!(!a.shares_cookie_with(b) || is_same && is_apart, "{a:?} {b:?}");
            }
        }
    }

    /// The rows of a table of `docs/flow-entries.md`, as cells.
    fn rows() -> Vec<Vec<&'static str>> {
        let page = include_str!("../../../docs/flow-entries.md");
        page.lines().map(|line| line.split('|').map(str::trim).collect()).collect()
    }

    #[test]
    fn the_documentation_has_every_kind() {
        for kind in kinds() {
            let cookie = match kind.cookie_mask {
                HIGH_HALF => format!("`{:#x}…`", kind.cookie >> 32),
                _ => format!("`{:#x}`", kind.cookie),
            };
            let (start, end) = kind.priorities.clone().into_inner();
            let priorities =
                if start == end { format!("{start}") } else { format!("{start} to {end}") };
            let row = rows().into_iter().find(|cells| match cells[..] {
                ["", priority, text, ..] => text == cookie && priority.ends_with(&priorities),
                _ => false,
            });
            assert!(row.is_some_and(|row| row.contains(&kind.application)), "{kind:?}");
        }
    }

    #[test]
    fn the_documentation_has_no_other_kinds_and_all_meters() {
        let cookies = rows()
            .into_iter()
            .filter(|cells| matches!(cells[..], ["", _, cookie, ..] if cookie.starts_with("`0x")));
        assert_eq!(cookies.count(), kinds().len());
        for (owner, allocation) in ALLOCATIONS {
            let is_documented =
                rows().iter().any(|cells| cells[1..].starts_with(&["meters", owner]));
            assert_eq!(is_documented, allocation.meters != MeterIds::None, "{owner}");
            assert_eq!((&allocation.groups, &allocation.tables), (&None, &None), "document it");
        }
    }
}
