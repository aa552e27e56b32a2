//! Counters of forwarding.

use sluice_sdk::AppMetric;

use super::Forwarding;

/// Numbers of events since the start. Each is a metric, whose help text describes it.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) paths_installed: u64,
    pub(super) flow_entries_written: u64,
    pub(super) stale_deletions: u64,
    pub(super) paths_moved: u64,
    pub(super) packets_during_installation: u64,
    pub(super) floods: u64,
    pub(super) floods_along_tree: u64,
    pub(super) floods_over_limit: u64,
    pub(super) floods_looped: u64,
    pub(super) unknown_from_link: u64,
    pub(super) from_pending_port: u64,
    pub(super) no_path: u64,
    pub(super) flow_entries_refused: u64,
    pub(super) match_simplified: u64,
    pub(super) truncated: u64,
}

impl Counters {
    pub(super) fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let counters = [
            ("forwarding_paths_installed", "Paths installed", self.paths_installed),
            ("forwarding_flow_entries_written", "Flow entries written", self.flow_entries_written),
            ("forwarding_stale_deletions", "Deletions of stale flow entries", self.stale_deletions),
            (
                "forwarding_paths_moved",
                "Flows moved to another path as a link of theirs is drained",
                self.paths_moved,
            ),
            (
                "forwarding_packets_during_installation",
                "Packets forwarded while their flow entries were being installed",
                self.packets_during_installation,
            ),
            ("forwarding_floods", "Packets flooded to edge ports", self.floods),
            (
                "forwarding_floods_along_tree",
                "Flooded packets that switches forward along the spanning tree",
                self.floods_along_tree,
            ),
            (
                "forwarding_floods_over_limit",
                "Packets not flooded as the limit of their port was reached",
                self.floods_over_limit,
            ),
            (
                "forwarding_floods_looped",
                "Packets not flooded as they came back through another port",
                self.floods_looped,
            ),
            (
                "forwarding_unknown_from_link",
                "Packets to a group or to an unknown host from another switch",
                self.unknown_from_link,
            ),
            (
                "forwarding_from_pending_port",
                "Packets dropped as the role of their port was not known yet",
                self.from_pending_port,
            ),
            ("forwarding_no_path", "Packets to hosts to which there is no path", self.no_path),
            (
                "forwarding_flow_entries_refused",
                "Flow entries refused by switches",
                self.flow_entries_refused,
            ),
            (
                "forwarding_match_simplified",
                "Changes of the flow entries of all switches to a simpler match, as a path passes through a switch that needs it",
                self.match_simplified,
            ),
            ("forwarding_truncated", "Packets lost as the switch sent only a part", self.truncated),
        ];
        for (name, help, value) in counters {
            put(AppMetric::counter(name, help, value));
        }
    }
}

impl Forwarding {
    /// What parts of the application count, and how much there is of what they hold.
    pub(super) fn put_gauges(&self, put: &mut dyn FnMut(AppMetric)) {
        let help = "Times a switch confirmed flow entries of the spanning tree too late, or did not list those of an earlier one";
        put(AppMetric::counter("forwarding_tree_timeouts", help, self.trees.timeouts()));
        let help = "Times the table-miss entry was written again as it was missing or modified";
        put(AppMetric::counter("forwarding_table_miss_restored", help, self.permanent.restored()));
        let gauges = [
            (
                "forwarding_installations_in_flight",
                "Flows whose flow entries are being installed",
                self.pending.len(),
            ),
            (
                "forwarding_group_streams",
                "Streams of broadcasts and multicasts that switches forward by themselves",
                self.group_streams.len(),
            ),
            (
                "forwarding_tree_active",
                "1 while switches forward broadcasts along a spanning tree",
                usize::from(self.trees.is_active()),
            ),
            (
                "forwarding_tree_unconfirmed",
                "Switches that do not confirm the deletion of flow entries of the spanning tree; a new one waits for them: two minutes at most if they were part of the last one, otherwise ten seconds",
                self.trees.unconfirmed(),
            ),
            (
                "forwarding_switches_with_refused_match",
                "Switches that require a simpler match than configured",
                self.switches.refused_match_count(),
            ),
            (
                "forwarding_segment_ports_blocked",
                "Ports whose packets are dropped as another port forwards for their unmanaged segment",
                self.segment_ports.len(),
            ),
            (
                "forwarding_switches_paused",
                "Switches that get no flow entries for a while as they refused one",
                self.switches.paused_count(),
            ),
        ];
        for (name, help, value) in gauges {
            put(AppMetric::gauge(name, help, value as u64));
        }
    }
}
