//! From settings to what the parts of the program take.

use std::net::SocketAddr;

use sluice_apps::{forwarding, hosts, learning, limiter, topology};
use tracing_subscriber::filter::LevelFilter;

use super::settings::{Forwarding, Hosts, Limiter, Settings, Topology};
use super::values::{Address, Format, Pin};

/// A configuration as the parts of the program take it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The engine's part.
    pub(crate) engine: sluice_engine::Config,
    /// Applications, in order.
    pub(crate) names: Vec<String>,
    /// How they are set.
    pub(crate) apps: sluice_apps::Config,
    /// Where metrics are served, if they are.
    pub(crate) api: Option<SocketAddr>,
    /// What is logged, and how.
    pub(crate) log: Log,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    /// What.
    pub(crate) level: LevelFilter,
    /// How.
    pub(crate) format: Format,
}

impl Plan {
    pub(super) fn new(settings: Settings) -> Self {
        let Settings { listen, apps, workers, session, limits, socket, topology, .. } = settings;
        let Settings { learning, hub, limiter, hosts, forwarding, api, log, .. } = settings;
        let engine = sluice_engine::Config {
            listen: listen.0,
            workers: sluice_engine::Workers {
                threads: workers.threads,
                pin: match workers.pin {
                    Pin::Each(false) => sluice_engine::Pin::Off,
                    Pin::Each(true) => sluice_engine::Pin::Each,
                    Pin::Cores(cores) => sluice_engine::Pin::Cores(cores.0),
                },
                waiting: sluice_io::Waiting { spin: workers.spin_us.0 },
            },
            session: sluice_proto::Config {
                versions: session.versions.0,
                handshake_timeout: session.handshake_timeout_ms.0,
                echo_interval: session.echo_interval_s.0,
                echo_timeout: session.echo_timeout_s.0,
                miss_send_len: session.miss_send_len,
                role: session.role.into(),
                generation_id: 0,
                multipart_bytes_max: session.multipart_bytes_max.get(),
                multipart_total_bytes_max: session.multipart_total_bytes_max.get(),
                malformed_max: session.malformed_max,
            },
            socket: sluice_io::sock::Options {
                congestion: socket.congestion.0,
                send_buffer: socket.send_buffer.0,
                recv_buffer: socket.recv_buffer.0,
            },
            limits: sluice_engine::Limits {
                handshakes_max: limits.handshakes_max.get(),
                hello_grace: limits.hello_grace_ms.0,
                handshake_bytes_max: limits.handshake_bytes_max.get(),
                sessions_max: limits.sessions_max.get(),
                tx_backlog_max: limits.tx_backlog_max.get(),
                unread_max: limits.unread_max_ms.0,
                mail_max: limits.mail_max.get(),
                stuck_timeout: limits.stuck_timeout_s.0,
                duplicate_timeout: limits.duplicate_timeout_s.0,
            },
        };
        let learning = learning::Config {
            hosts_max: learning.hosts_max.get(),
            host_timeout: learning.host_timeout_s.0,
            idle_timeout_s: learning.idle_timeout_s,
            hard_timeout_s: learning.hard_timeout_s,
            priority: learning.priority.get(),
            matching: learning.matching.into(),
            miss_len: learning.miss_len,
        };
        let hub = sluice_apps::hub::Config { miss_len: hub.miss_len };
        let Address(at) = api.listen;
        Self {
            engine,
            names: apps.0,
            apps: sluice_apps::Config {
                topology: topology.into(),
                learning,
                hub,
                limiter: limiter.into(),
                hosts: hosts.into(),
                forwarding: forwarding.into(),
            },
            api: api.enabled.then_some(at),
            log: Log { level: log.level.into(), format: log.format },
        }
    }
}

impl From<Topology> for topology::Config {
    fn from(settings: Topology) -> Self {
        Self {
            probe_interval: settings.probe_interval_ms.0,
            probes_per_second: settings.probes_per_second.get(),
            lost_probes: settings.lost_probes.get(),
            settle: settings.settle_ms.0,
            shared_interval: settings.shared_interval_ms.0,
            hold: settings.hold_s.0,
            secret: settings.secret.0,
            // Read once, when the program starts.
            clock: None,
        }
    }
}

impl From<Hosts> for hosts::Config {
    fn from(set: Hosts) -> Self {
        Self {
            hosts_max: set.hosts_max.get(),
            addrs_max: set.addrs_max.get(),
            per_port_max: set.per_port_max,
            timeout: set.timeout_s.0,
            probes: set.probes,
            proxy: set.proxy,
            guard: set.guard.into(),
            verify: set.verify_ms.0,
            moves_per_s_max: set.moves_per_s_max.get(),
            requests_per_s_max: set.requests_per_s_max.get(),
        }
    }
}

impl From<Limiter> for limiter::Config {
    fn from(set: Limiter) -> Self {
        Self {
            port_rate: set.port_rate,
            burst: set.burst.get(),
            hold_s: set.hold_s.get(),
            meters: set.meters,
            ahead: set.ahead,
            ecn: set.ecn,
            miss_len: set.miss_len,
        }
    }
}

impl From<Forwarding> for forwarding::Config {
    fn from(set: Forwarding) -> Self {
        Self {
            matching: set.matching.into(),
            both_directions: set.both_directions,
            priority: set.priority.get(),
            idle_timeout_s: set.idle_timeout_s,
            hard_timeout_s: set.hard_timeout_s,
            waiting: set.waiting_ms.0,
            refused_retry: set.refused_retry_s.0,
            flooding: set.flood.into(),
            floods_per_s_max: set.floods_per_s_max,
            miss_len: set.miss_len,
            seed: set.seed,
        }
    }
}
