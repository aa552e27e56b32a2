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

    const fn new(
        application: &'static str,
        (cookie, cookie_mask): (u64, u64),
        priorities: RangeInclusive<u16>,
    ) -> Self {
        Self { application, cookie, cookie_mask, priorities }
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
pub const CONFIGURABLE_PRIORITIES: RangeInclusive<u16> = 7..=65_530;

/// Blocks or meters the link probes of a port that sends too many: above the entries that send them to the controller.
pub const PROBE_LIMITS: EntryKind = EntryKind::new("limiter", LIMIT, 65_535..=65_535);

/// Sends link probes to the controller: above all that forward, which must not hide links.
pub const LINK_PROBES: EntryKind = EntryKind::new("topology", PERMANENT, 65_534..=65_534);

/// Drops what arrives at a port of an unmanaged segment for which another port forwards. The cookie is `segment` in ASCII.
pub const BLOCKED_PORTS: EntryKind =
    EntryKind::new("forwarding", (0x0073_6567_6d65_6e74, u64::MAX), 65_533..=65_533);

/// Forwards the packets of a flow. The cookie is `forw` in ASCII.
pub const PATHS: EntryKind =
    EntryKind::new("forwarding", (0x666f_7277_0000_0000, HIGH_HALF), CONFIGURABLE_PRIORITIES);

/// Forwards a stream of multicasts or broadcasts from an edge port. The cookie is `grou` in ASCII.
pub const GROUP_STREAMS: EntryKind =
    EntryKind::new("forwarding", (0x6772_6f75_0000_0000, HIGH_HALF), CONFIGURABLE_PRIORITIES);

/// Forwards broadcasts and multicasts along the spanning tree; at the higher priorities drops those to reserved addresses, and
/// forwards those to groups without members and to single groups. The cookie is `tree` in ASCII.
pub const TREE: EntryKind = EntryKind::new("forwarding", (0x7472_6565_0000_0000, HIGH_HALF), 4..=6);

/// Blocks or meters a port that causes too many table misses; one of its hosts at the highest of these priorities; marks its
/// packets before that at the lowest.
pub const MISS_LIMITS: EntryKind = EntryKind::new("limiter", LIMIT, 1..=3);

/// Sends table misses to the controller.
pub const TABLE_MISS: EntryKind = EntryKind::new("all", PERMANENT, 0..=0);

/// Priorities of an operator's own entries in table 0: see `docs/flow-entries.md`.
pub const OPERATOR_PRIORITIES: RangeInclusive<u16> = 7..=65_532;

/// An entry that an operator has declared and Sluice keeps. The cookie is `stat` in ASCII. In other tables than 0 it may have any
/// priority.
pub const STATIC: EntryKind =
    EntryKind::new("static", (0x7374_6174_0000_0000, HIGH_HALF), OPERATOR_PRIORITIES);

/// All kinds of applications, by descending priority. `learning`, an alternative to `forwarding`, has cookie 0 and a configured priority.
pub const ENTRY_KINDS: [EntryKind; 8] =
    [PROBE_LIMITS, LINK_PROBES, BLOCKED_PORTS, PATHS, GROUP_STREAMS, TREE, MISS_LIMITS, TABLE_MISS];

/// The application that has written a flow entry, or `static`; `None` if it is somebody else's.
pub fn owner_of(cookie: u64, priority: u16) -> Option<&'static str> {
    if STATIC.has_cookie(cookie) {
        return Some(STATIC.application);
    }
    let is_it = |kind: &&EntryKind| kind.has_cookie(cookie) && kind.priorities.contains(&priority);
    ENTRY_KINDS.iter().find(is_it).map(|kind| kind.application)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_kinds_have_a_priority_or_cookie_in_common() {
        for (n, a) in ENTRY_KINDS.iter().enumerate() {
            for b in ENTRY_KINDS.iter().skip(n + 1) {
                let are_configured = [a, b].map(|kind| kind.priorities == CONFIGURABLE_PRIORITIES);
                let is_above = a.priorities.start() > b.priorities.end();
                assert!(is_above || are_configured == [true; 2], "{a:?} {b:?}");
                let common = a.cookie_mask & b.cookie_mask;
                let is_distinct = (a.cookie ^ b.cookie) & common != 0;
                let is_same = (a.cookie, a.cookie_mask) == (b.cookie, b.cookie_mask);
                assert!(is_distinct || is_same, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_documentation_has_every_kind() {
        let page = include_str!("../../../docs/flow-entries.md");
        for kind in ENTRY_KINDS.into_iter().chain([STATIC]) {
            let cookie = match kind.cookie_mask {
                HIGH_HALF => format!("`{:#x}…`", kind.cookie >> 32),
                _ => format!("`{:#x}`", kind.cookie),
            };
            let (start, end) = kind.priorities.clone().into_inner();
            let priorities =
                if start == end { format!("{start}") } else { format!("{start} to {end}") };
            let mut rows =
                page.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
            let row = rows.find(|cells| match cells[..] {
                ["", priority, text, ..] => text == cookie && priority.ends_with(&priorities),
                _ => false,
            });
            assert!(row.is_some_and(|row| row.contains(&kind.application)), "{kind:?}");
        }
    }

    #[test]
    fn entries_of_other_programs_have_no_owner() {
        assert_eq!(owner_of(0x666f_7277_0000_0002, 100), Some("forwarding"));
        assert_eq!(owner_of(PERMANENT.0, 0), Some("all"));
        assert_eq!(owner_of(STATIC.cookie | 7, 0), Some("static"));
        assert!(ENTRY_KINDS.iter().all(|kind| !kind.has_cookie(STATIC.cookie)));
        assert_eq!([owner_of(0, 100), owner_of(0x1234, 1234)], [None; 2]);
    }
}
