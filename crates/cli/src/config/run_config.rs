//! The configuration of each part of the program, made from the settings.

use std::net::SocketAddr;

use sluice_apps::{forwarding, hosts, hub, learning, limiter, topology};
use sluice_openflow::Action;
use tracing_subscriber::filter::LevelFilter;

use super::settings::{Experimental, Forwarding, Hosts, Learning, Limiter, Settings, Topology};
use super::values::{ByName, LogFormat, MissSendLen, PinSetting};

/// The configuration of each part of the program.
#[derive(Debug, Clone)]
pub(crate) struct RunConfig {
    pub(crate) engine: sluice_engine::Config,
    /// Names of the applications, in order.
    pub(crate) app_names: Vec<String>,
    /// The configuration of all applications.
    pub(crate) apps: sluice_apps::Config,
    /// The address on which metrics are served, if they are.
    pub(crate) api: Option<SocketAddr>,
    pub(crate) log: LogConfig,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogConfig {
    pub(crate) level: LevelFilter,
    pub(crate) format: LogFormat,
}

impl RunConfig {
    pub(super) fn new(settings: Settings) -> Self {
        let Settings { listen, apps, workers, session, limits, socket, topology, .. } = settings;
        let Settings { learning, limiter, hosts, forwarding, api, log, experimental, .. } =
            settings;
        let defaults = sluice_proto::Config::default();
        // Before 1.3 a SET_CONFIG says how much of a packet a switch sends, from 1.3 on each flow entry.
        let (of_session, of_flow_entries) = match session.miss_send_len {
            MissSendLen::Auto(_) => (defaults.miss_send_len, Action::WHOLE),
            MissSendLen::Bytes(bytes) => (bytes, bytes),
        };
        let engine = sluice_engine::Config {
            listen: listen.0,
            workers: sluice_engine::Workers {
                threads: workers.threads,
                pin: match workers.pin {
                    PinSetting::Each(false) => sluice_engine::Pin::Off,
                    PinSetting::Each(true) => sluice_engine::Pin::Each,
                    PinSetting::Cores(cores) => sluice_engine::Pin::Cores(cores.0),
                },
                waiting: sluice_io::WaitStrategy { spin: workers.spin_us.0 },
            },
            session: sluice_proto::Config {
                versions: session.versions.0,
                handshake_timeout: experimental.handshake_timeout_ms.0,
                echo_interval: session.echo_interval_s.0,
                echo_timeout: session.echo_timeout_s.0,
                miss_send_len: of_session,
                role: session.role.0,
                ..defaults
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
        #[allow(
            clippy::needless_update,
            reason = "an application without settings has no line here"
        )]
        let apps_config = sluice_apps::Config {
            topology: topology_config(&topology, &experimental),
            hosts: hosts.into(),
            forwarding: forwarding_config(&forwarding, &experimental, of_flow_entries),
            learning: learning::Config { miss_send_len: of_flow_entries, ..learning.into() },
            limiter: limiter::Config { miss_send_len: of_flow_entries, ..limiter.into() },
            hub: hub::Config { miss_send_len: of_flow_entries },
            ..sluice_apps::Config::default()
        };
        let (ByName(level), ByName(format)) = (log.level, log.format);
        let log = LogConfig { level, format };
        Self { engine, app_names: apps.0, apps: apps_config, api: api.listen.0, log }
    }
}

fn topology_config(set: &Topology, experimental: &Experimental) -> topology::Config {
    topology::Config {
        probe_interval: set.probe_interval_ms.0,
        probes_per_s_max: set.probes_per_s_max.get(),
        secret: set.secret.0,
        settle: experimental.settle_ms.0,
        shared_interval: experimental.shared_interval_ms.0,
        ..topology::Config::default()
    }
}

fn forwarding_config(
    set: &Forwarding,
    experimental: &Experimental,
    miss_send_len: u16,
) -> forwarding::Config {
    forwarding::Config {
        matching: set.match_.0,
        both_directions: set.both_directions,
        priority: set.priority.get(),
        idle_timeout_s: set.idle_timeout_s,
        hard_timeout_s: set.hard_timeout_s,
        waiting: experimental.path_pending_ms.0,
        refused_retry: experimental.refused_retry_s.0,
        flooding: set.flood.0,
        floods_per_s_max: set.floods_per_s_max,
        miss_send_len,
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
            matching: set.match_.0,
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
            arp_proxy: set.arp_proxy,
            address_conflicts: set.address_conflicts.0,
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
