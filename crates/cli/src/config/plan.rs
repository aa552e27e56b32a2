//! From settings to what the parts of the program take.

use std::net::SocketAddr;

use sluice_apps::{forwarding, hosts, learning, limiter, topology};
use sluice_openflow::Action;
use tracing_subscriber::filter::LevelFilter;

use super::settings::{Forwarding, Hosts, Learning, Limiter, Settings, Topology};
use super::values::{Format, MissSendLen, Pin};

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
        let Settings { learning, limiter, hosts, forwarding, api, log, experimental, .. } =
            settings;
        let session_defaults = sluice_proto::Config::default();
        let miss_send_len = match session.miss_send_len {
            MissSendLen::Auto(_) => Action::WHOLE,
            MissSendLen::Bytes(bytes) => bytes,
        };
        let engine = sluice_engine::Config {
            listen: listen.0,
            workers: sluice_engine::Workers {
                threads: workers.threads,
                pin: match workers.pin {
                    Pin::Each(false) => sluice_engine::Pin::Off,
                    Pin::Each(true) => sluice_engine::Pin::Each,
                    Pin::Cores(cores) => sluice_engine::Pin::Cores(cores.0),
                },
                waiting: sluice_io::WaitStrategy { spin: workers.spin_us.0 },
            },
            session: sluice_proto::Config {
                versions: session.versions.0,
                handshake_timeout: experimental.handshake_timeout_ms.0,
                echo_interval: session.echo_interval_s.0,
                echo_timeout: session.echo_timeout_s.0,
                miss_send_len: match session.miss_send_len {
                    MissSendLen::Auto(_) => session_defaults.miss_send_len,
                    MissSendLen::Bytes(bytes) => bytes,
                },
                role: session.role.into(),
                generation_id: 0,
                ..session_defaults
            },
            socket: sluice_io::sock::Options {
                congestion: socket.congestion.0,
                ..sluice_io::sock::Options::default()
            },
            limits: sluice_engine::Limits {
                handshakes_max: limits.handshakes_max.get(),
                switches_max: limits.switches_max.get(),
                backlog_bytes_max: limits.backlog_bytes_max.get(),
                ..sluice_engine::Limits::default()
            },
        };
        let hub = sluice_apps::hub::Config { miss_send_len };
        Self {
            engine,
            names: apps.0,
            apps: sluice_apps::Config {
                topology: topology::Config {
                    settle: experimental.settle_ms.0,
                    shared_interval: experimental.shared_interval_ms.0,
                    ..topology.into()
                },
                learning: learning::Config { miss_send_len, ..learning.into() },
                hub,
                limiter: limiter::Config { miss_send_len, ..limiter.into() },
                hosts: hosts.into(),
                forwarding: forwarding::Config {
                    waiting: experimental.path_pending_ms.0,
                    refused_retry: experimental.refused_retry_s.0,
                    miss_send_len,
                    ..forwarding.into()
                },
            },
            api: api.listen.0,
            log: Log { level: log.level.into(), format: log.format },
        }
    }
}

impl From<Topology> for topology::Config {
    fn from(settings: Topology) -> Self {
        Self {
            probe_interval: settings.probe_interval_ms.0,
            probes_per_s_max: settings.probes_per_s_max.get(),
            secret: settings.secret.0,
            ..Self::default()
        }
    }
}

impl From<Learning> for learning::Config {
    fn from(set: Learning) -> Self {
        Self {
            hosts_max: set.hosts_max.get(),
            host_timeout: set.host_timeout_s.0,
            idle_timeout_s: set.idle_timeout_s,
            hard_timeout_s: set.hard_timeout_s,
            priority: set.priority.get(),
            matching: set.matching.into(),
            ..Self::default()
        }
    }
}

impl From<Hosts> for hosts::Config {
    fn from(set: Hosts) -> Self {
        Self {
            hosts_max: set.hosts_max.get(),
            per_port_max: set.per_port_max,
            timeout: set.timeout_s.0,
            proxy: set.arp_proxy,
            guard: set.address_conflicts.into(),
            requests_per_s_max: set.requests_per_s_max.get(),
            ..Self::default()
        }
    }
}

impl From<Limiter> for limiter::Config {
    fn from(set: Limiter) -> Self {
        Self {
            packets_per_s_max: set.packets_per_s_max,
            burst_packets: set.burst_packets.get(),
            block_s: set.block_s.get(),
            meters: set.meters,
            proactive: set.proactive,
            ecn: set.ecn,
            ..Self::default()
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
            flooding: set.flood.into(),
            floods_per_s_max: set.floods_per_s_max,
            ..Self::default()
        }
    }
}
