//! The configuration of each part of the program, made from the settings.

use std::ops::RangeInclusive;

use sluice_apps::{forwarding, hosts, hub, learning, limiter, topology};
use sluice_engine::TlsListeners;
use sluice_io::ReadSizes;
use sluice_openflow::Action;
use tracing_subscriber::filter::LevelFilter;

use super::settings::{
    ExperimentalSettings, ForwardingSettings, HostSettings, LearningSettings, LimiterSettings,
    OptimisationSettings, Settings, TopologySettings, WorkerSettings,
};
use super::values::{ByName, LogFormat, MissSendLen, PinSetting};

/// The configuration of each part of the program.
#[derive(Debug, Clone)]
pub(crate) struct RunConfig {
    pub(crate) engine: sluice_engine::Config,
    /// Names of the applications, in order.
    pub(crate) app_names: Vec<String>,
    /// The configuration of all applications.
    pub(crate) apps: sluice_apps::Config,
    /// Where metrics and the API are served, and to whom.
    pub(crate) api: sluice_northbound::Config,
    pub(crate) log: LogConfig,
    /// The directory of the store; empty for the default.
    pub(crate) state_dir: String,
    /// VLAN ids that tag packets of policies.
    pub(crate) policy_tags: RangeInclusive<u16>,
    /// Whether large tables are in huge pages.
    pub(crate) huge_pages: bool,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogConfig {
    pub(crate) level: LevelFilter,
    pub(crate) format: LogFormat,
}

impl RunConfig {
    pub(super) fn new(
        settings: Settings,
        tls: Vec<TlsListeners>,
        api: sluice_northbound::Config,
    ) -> Self {
        let Settings { listen, apps, workers, session, limits, socket, topology, .. } = settings;
        let Settings { learning, limiter, hosts, forwarding, log, experimental, state, .. } =
            settings;
        let (optimisations, policy_tags) = (settings.optimisations, settings.policies.vlans.0);
        let defaults = sluice_proto::Config::default();
        // Before 1.3, SET_CONFIG sets how many bytes of a packet a switch sends; since 1.3, each flow entry does.
        let (session_len, flow_entry_len) = match session.miss_send_len {
            MissSendLen::Auto(_) => (defaults.miss_send_len, Action::WHOLE),
            MissSendLen::Bytes(bytes) => (bytes, bytes),
        };
        let engine = sluice_engine::Config {
            listen: listen.0,
            tls,
            workers: worker_config(workers, &optimisations),
            batching: sluice_engine::Batching {
                input: optimisations.input_batching,
                output: optimisations.output_batching,
            },
            session: sluice_proto::Config {
                versions: session.versions.0,
                handshake_timeout: experimental.handshake_timeout_ms.0,
                echo_interval: session.echo_interval_s.0,
                echo_timeout: session.echo_timeout_s.0,
                miss_send_len: session_len,
                role: session.role.0,
                ..defaults
            },
            socket: sluice_io::sock::Options {
                congestion: socket.congestion.0,
                ..sluice_io::sock::Options::default()
            },
            limits: sluice_engine::Limits {
                handshakes_max: limits.handshakes_max.get(),
                syn_filter: limits.syn_filter,
                switches_max: limits.switches_max.get(),
                ports_max: limits.ports_max.get(),
                backlog_bytes_max: limits.backlog_bytes_max.get(),
                ..sluice_engine::Limits::default()
            },
            move_interval: Some(experimental.move_interval_ms.0).filter(|time| !time.is_zero()),
        };
        #[allow(
            clippy::needless_update,
            reason = "an application without settings has no line here"
        )]
        let apps_config = sluice_apps::Config {
            topology: topology_config(&topology, &experimental),
            hosts: hosts.into(),
            forwarding: forwarding::Config {
                templates: optimisations.templates,
                ..forwarding_config(&forwarding, &experimental, flow_entry_len)
            },
            learning: learning::Config {
                miss_send_len: flow_entry_len,
                prefetching: optimisations.prefetching,
                templates: optimisations.templates,
                ..learning.into()
            },
            limiter: limiter::Config { miss_send_len: flow_entry_len, ..limiter.into() },
            hub: hub::Config { miss_send_len: flow_entry_len },
            ..sluice_apps::Config::default()
        };
        let (ByName(level), ByName(format)) = (log.level, log.format);
        let log = LogConfig { level, format };
        let (app_names, state_dir, huge_pages) = (apps.0, state.dir, optimisations.huge_pages);
        Self { engine, app_names, apps: apps_config, api, log, state_dir, policy_tags, huge_pages }
    }
}

fn worker_config(
    settings: WorkerSettings,
    optimisations: &OptimisationSettings,
) -> sluice_engine::Workers {
    sluice_engine::Workers {
        threads: settings.threads.0,
        pin: match settings.pin {
            PinSetting::Each(false) => sluice_engine::Pin::Off,
            PinSetting::Each(true) => sluice_engine::Pin::Each,
            PinSetting::Cores(cores) => sluice_engine::Pin::Cores(cores.0),
        },
        waiting: sluice_io::WaitStrategy { spin: settings.spin_us.0 },
        read_sizes: if optimisations.adaptive_reads {
            ReadSizes::Adaptive
        } else {
            ReadSizes::Fixed
        },
        engine: settings.engine.0,
        balancing: settings.balancing,
        run_to_completion: optimisations.run_to_completion,
    }
}

fn topology_config(
    settings: &TopologySettings,
    experimental: &ExperimentalSettings,
) -> topology::Config {
    topology::Config {
        probe_interval: settings.probe_interval_ms.0,
        probes_per_s_max: settings.probes_per_s_max.get(),
        secret: settings.secret.0,
        unexpected_links: settings.unexpected_links.0,
        bundles: settings.bundles.0.clone(),
        settle: experimental.settle_ms.0,
        shared_interval: experimental.shared_interval_ms.0,
        ..topology::Config::default()
    }
}

fn forwarding_config(
    settings: &ForwardingSettings,
    experimental: &ExperimentalSettings,
    miss_send_len: u16,
) -> forwarding::Config {
    forwarding::Config {
        matching: settings.match_.0,
        both_directions: settings.both_directions,
        priority: settings.priority.0,
        idle_timeout_s: settings.idle_timeout_s,
        hard_timeout_s: settings.hard_timeout_s,
        path_pending: experimental.path_pending_ms.0,
        refused_retry: experimental.refused_retry_s.0,
        verify_interval: settings.verify_interval_s.0,
        flooding: settings.flood.0,
        floods_per_s_max: settings.floods_per_s_max,
        multicast: settings.multicast_snooping.then_some(forwarding::multicast::Config {
            membership: settings.multicast_membership_s.0,
            unregistered: settings.multicast_unregistered.0,
        }),
        miss_send_len,
        ..forwarding::Config::default()
    }
}

impl From<LearningSettings> for learning::Config {
    fn from(settings: LearningSettings) -> Self {
        Self {
            hosts_max: settings.hosts_max.get(),
            host_timeout: settings.host_timeout_s.0,
            idle_timeout_s: settings.idle_timeout_s,
            hard_timeout_s: settings.hard_timeout_s,
            priority: settings.priority.0,
            matching: settings.match_.0,
            ..Self::default()
        }
    }
}

impl From<HostSettings> for hosts::Config {
    fn from(settings: HostSettings) -> Self {
        Self {
            hosts_max: settings.hosts_max.get(),
            per_port_max: settings.per_port_max,
            timeout: settings.timeout_s.0,
            arp_proxy: settings.arp_proxy,
            address_conflicts: settings.address_conflicts.0,
            requests_per_s_max: settings.requests_per_s_max.get(),
            lacp: settings.lacp,
            ..Self::default()
        }
    }
}

impl From<LimiterSettings> for limiter::Config {
    fn from(settings: LimiterSettings) -> Self {
        Self {
            packets_per_s_max: settings.packets_per_s_max,
            burst_packets: settings.burst_packets.get(),
            block_s: settings.block_s.get(),
            meters: settings.meters,
            proactive: settings.proactive,
            ecn: settings.ecn,
            ..Self::default()
        }
    }
}
