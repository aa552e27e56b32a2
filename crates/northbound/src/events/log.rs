//! The lines of the log about events.

use std::time::{Duration, Instant};

use super::event::{Event, EventKind, quoted};

/// Lines per second. Further ones are counted, and the count is logged.
const LINES_PER_S_MAX: u32 = 20;

/// Logs events, at a limited rate.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    /// Start of the current second.
    since: Option<Instant>,
    logged: u32,
    suppressed: u64,
}

impl EventLog {
    /// Logs an event, unless whoever has published it logs it.
    pub(super) fn log(&mut self, event: &Event, now: Instant) {
        self.tick(now);
        if !is_logged(event.kind) {
            return;
        }
        if self.logged < LINES_PER_S_MAX {
            self.logged += 1;
            write_line(event);
        } else {
            self.suppressed += 1;
        }
    }

    /// Logs how many lines were left out in the last second.
    pub(super) fn tick(&mut self, now: Instant) {
        let is_over = |since| now.saturating_duration_since(since) >= Duration::from_secs(1);
        if self.since.is_none_or(is_over) {
            if self.suppressed > 0 {
                tracing::info!(events = self.suppressed, "events not logged: too many in a second");
            }
            *self = Self { since: Some(now), ..Self::default() };
        }
    }
}

/// Whether an event is logged here. The others are logged by the engine, by an application, or by what reads the configuration; and
/// that a host has another IP address is too much for the log.
fn is_logged(kind: EventKind) -> bool {
    match kind {
        EventKind::PortUp
        | EventKind::PortDown
        | EventKind::PortBlocked
        | EventKind::PortReleased
        | EventKind::LinkUp
        | EventKind::LinkDown
        | EventKind::HostLearned
        | EventKind::HostMoved
        | EventKind::HostRemoved
        | EventKind::HostQuarantined
        | EventKind::HostReleased
        | EventKind::PathsRepaired
        | EventKind::PolicyApplied
        | EventKind::PolicyRefused
        | EventKind::EventsLost => true,
        EventKind::SwitchConnected
        | EventKind::SwitchDisconnected
        | EventKind::HostAddressesChanged
        | EventKind::AddressConflict
        | EventKind::ConfigurationReloaded => false,
    }
}

/// Writes a line with the fields that the event has. Names, which switches choose, are quoted.
fn write_line(event: &Event) {
    let words = event.kind.name().replace('-', " ");
    let (at, from, to) = (event.at.as_ref(), event.from.as_ref(), event.to.as_ref());
    let (host, policy) = (event.host.as_ref(), event.policy.as_ref());
    tracing::info!(
        revision = policy.map(|it| it.revision),
        set = policy.map(|it| it.set),
        removed = policy.map(|it| it.removed),
        switches = policy.map(|it| it.switches),
        failed = policy.map(|it| it.failed).filter(|count| *count > 0),
        declared = policy.map(|it| it.declared),
        duration_ms = policy.map(|it| it.duration_ms),
        commit_us = policy.and_then(|it| it.commit_us),
        mac = host.map(|it| display(&it.mac)),
        vlan = host.map(|it| it.vlan),
        dpid = at.map(|it| display(&it.dpid)),
        name = at.and_then(|it| it.switch.as_deref()),
        port = at.and_then(|it| it.port),
        port_name = at.and_then(|it| it.port_name.as_deref()),
        from_dpid = from.map(|it| display(&it.dpid)),
        from_name = from.and_then(|it| it.switch.as_deref()),
        from_port = from.and_then(|it| it.port),
        from_port_name = from.and_then(|it| it.port_name.as_deref()),
        to_dpid = to.map(|it| display(&it.dpid)),
        to_name = to.and_then(|it| it.switch.as_deref()),
        to_port = to.and_then(|it| it.port),
        to_port_name = to.and_then(|it| it.port_name.as_deref()),
        packets = event.packets,
        packets_per_s_max = event.packets_per_s_max,
        reason = event.reason.clone().map(quoted).map(display),
        by = event.by.clone().map(quoted).map(display),
        count = event.count,
        "{words}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_over_the_limit_are_counted_until_the_next_second() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let mut log = EventLog::default();
        for _ in 0..50 {
            log.log(&Event::lost(), start);
        }
        assert_eq!(
            (log.logged, log.suppressed),
            (LINES_PER_S_MAX, 50 - u64::from(LINES_PER_S_MAX))
        );
        log.tick(start + Duration::from_secs(1));
        assert_eq!((log.logged, log.suppressed), (0, 0));
    }
}
