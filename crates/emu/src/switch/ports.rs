//! Ports: configuration, state and counters. §7.2.1.

use std::collections::BTreeMap;
use std::time::Instant;

use sluice_openflow::{
    ErrorReason, EthernetPort, Port, PortConfig, PortFeatures, PortMod, PortNo, PortProp,
    PortState, PortStats, Version,
};
use sluice_pipeline::FloodScope;

use super::config::EmulatedPortConfig;
use super::error_reasons;

#[derive(Debug)]
struct EmulatedPort {
    settings: EmulatedPortConfig,
    /// The flags that the controller sets by `PORT_MOD`.
    config: PortConfig,
    has_link: bool,
    stats: PortStats,
}

/// All ports by number, and when the switch started.
#[derive(Debug)]
pub(crate) struct EmulatedPorts {
    /// In the order of their numbers.
    ports: Vec<EmulatedPort>,
    since: Option<Instant>,
}

impl EmulatedPorts {
    pub(crate) fn new(configs: &[EmulatedPortConfig]) -> Self {
        let state = |settings: &EmulatedPortConfig| EmulatedPort {
            settings: settings.clone(),
            config: PortConfig::default(),
            has_link: true,
            stats: PortStats { port_no: settings.port_no, ..PortStats::default() },
        };
        let ports: BTreeMap<_, _> =
            configs.iter().map(|settings| (settings.port_no, state(settings))).collect();
        Self { ports: ports.into_values().collect(), since: None }
    }

    /// The index of a port.
    fn position(&self, port: PortNo) -> Option<usize> {
        // Most switches number their ports from 1 on.
        let usual = (port.0 as usize).wrapping_sub(1);
        if self.ports.get(usual).is_some_and(|it| it.settings.port_no == port) {
            return Some(usual);
        }
        self.ports.binary_search_by_key(&port, |it| it.settings.port_no).ok()
    }

    fn get(&self, port: PortNo) -> Option<&EmulatedPort> {
        self.ports.get(self.position(port)?)
    }

    fn get_mut(&mut self, port: PortNo) -> Option<&mut EmulatedPort> {
        let at = self.position(port)?;
        self.ports.get_mut(at)
    }

    /// Records the time of the first event.
    pub(crate) fn record_start(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Whether `port` accepts a frame of `len` bytes; updates counters.
    pub(crate) fn receive(&mut self, port: PortNo, len: usize) -> bool {
        let Some(state) = self.get_mut(port) else { return false };
        let accepts = state.is_up() && !state.config.contains(PortConfig::NO_RECV);
        if accepts {
            state.stats.rx_packets += 1;
            state.stats.rx_bytes += u64::try_from(len).unwrap_or_default();
        } else {
            state.stats.rx_dropped += 1;
        }
        accepts
    }

    /// Whether `port` sends a frame of `len` bytes; updates counters.
    pub(crate) fn send(&mut self, port: PortNo, len: usize) -> bool {
        let Some(state) = self.get_mut(port) else { return false };
        let sends = state.is_up() && !state.config.contains(PortConfig::NO_FWD);
        if sends {
            state.stats.tx_packets += 1;
            state.stats.tx_bytes += u64::try_from(len).unwrap_or_default();
        } else {
            state.stats.tx_dropped += 1;
        }
        sends
    }

    /// The ports to which a frame from `in_port` is flooded, in ascending order.
    pub(crate) fn flood_ports(&self, scope: FloodScope, in_port: PortNo) -> Vec<PortNo> {
        let is_included = |state: &EmulatedPort| {
            let floods = scope == FloodScope::All || !state.config.contains(PortConfig::NO_FLOOD);
            floods && state.is_up()
        };
        let ports = self.ports.iter().filter(|it| is_included(it)).map(|it| it.settings.port_no);
        ports.filter(|&port| port != in_port).collect()
    }

    /// Sets the link state of a port; `true` if it changed.
    pub(crate) fn set_link(&mut self, port: PortNo, is_up: bool) -> bool {
        let state = self.get_mut(port);
        state.is_some_and(|state| std::mem::replace(&mut state.has_link, is_up) != is_up)
    }

    /// Applies a `PORT_MOD`; `true` if the configuration changed.
    ///
    /// # Errors
    /// `BAD_PORT`, `BAD_HW_ADDR`, or `BAD_CONFIG` for flags that `version` lacks.
    pub(crate) fn apply_port_mod(
        &mut self,
        port_mod: &PortMod,
        version: Version,
    ) -> Result<bool, ErrorReason> {
        let state = self.get_mut(port_mod.port_no).ok_or(error_reasons::PORT_MOD_BAD_PORT)?;
        if state.settings.hw_addr != port_mod.hw_addr {
            return Err(error_reasons::BAD_HW_ADDR);
        }
        let mut supported = PortConfig::PORT_DOWN
            | PortConfig::NO_RECV
            | PortConfig::NO_FWD
            | PortConfig::NO_PACKET_IN;
        if version == Version::V1_0 {
            supported |= PortConfig::NO_FLOOD | PortConfig::NO_STP | PortConfig::NO_RECV_STP;
        }
        if port_mod.mask.0 & !supported.0 != 0 {
            return Err(error_reasons::BAD_PORT_CONFIG);
        }
        let config =
            PortConfig(state.config.0 & !port_mod.mask.0 | port_mod.config.0 & port_mod.mask.0);
        Ok(std::mem::replace(&mut state.config, config) != config)
    }

    /// Whether frames from `port` may cause packet-ins.
    pub(crate) fn allows_packet_in(&self, port: PortNo) -> bool {
        let state = self.get(port);
        state.is_none_or(|state| !state.config.contains(PortConfig::NO_PACKET_IN))
    }

    pub(crate) fn contains(&self, port: PortNo) -> bool {
        self.position(port).is_some()
    }

    pub(crate) fn is_up(&self, port: PortNo) -> bool {
        self.get(port).is_some_and(EmulatedPort::is_up)
    }

    /// The description of a port, as encoded in `version`.
    pub(crate) fn desc(&self, port: PortNo, version: Version) -> Option<Port> {
        self.get(port).map(|state| state.desc(version))
    }

    /// The descriptions of all ports, as encoded in `version`.
    pub(crate) fn descs(&self, version: Version) -> Vec<Port> {
        self.ports.iter().map(|state| state.desc(version)).collect()
    }

    /// The counters of `port`, or of all ports for [`PortNo::ANY`].
    pub(crate) fn stats(&self, now: Instant, port: PortNo, version: Version) -> Vec<PortStats> {
        let age = self.since.map(|since| now.saturating_duration_since(since)).unwrap_or_default();
        let stats = |state: &EmulatedPort| {
            let mut stats = state.stats.clone();
            if version >= Version::V1_3 {
                stats.duration_sec = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
                stats.duration_nsec = age.subsec_nanos();
            }
            stats
        };
        let is_selected = |it: &&EmulatedPort| port == PortNo::ANY || port == it.settings.port_no;
        self.ports.iter().filter(is_selected).map(stats).collect()
    }
}

impl EmulatedPort {
    fn is_up(&self) -> bool {
        self.has_link && !self.config.contains(PortConfig::PORT_DOWN)
    }

    fn desc(&self, version: Version) -> Port {
        let is_later = version > Version::V1_0;
        let state = match (self.has_link, self.is_up() && is_later) {
            (false, _) => PortState::LINK_DOWN,
            (true, true) => PortState::LIVE,
            (true, false) => PortState::default(),
        };
        let curr = speed(self.settings.speed_kbps, version) | PortFeatures::COPPER;
        let kbps = if is_later { self.settings.speed_kbps } else { 0 };
        let ethernet = EthernetPort {
            curr,
            supported: curr,
            curr_speed: kbps,
            max_speed: kbps,
            ..EthernetPort::default()
        };
        Port {
            port_no: self.settings.port_no,
            hw_addr: self.settings.hw_addr,
            name: self.settings.name,
            config: self.config,
            state,
            properties: vec![PortProp::Ethernet(ethernet)],
        }
    }
}

/// The feature flag of a speed in `version`; none if there is none.
fn speed(kbps: u32, version: Version) -> PortFeatures {
    match kbps {
        10_000 => PortFeatures::SPEED_10MB_FD,
        100_000 => PortFeatures::SPEED_100MB_FD,
        1_000_000 => PortFeatures::SPEED_1GB_FD,
        10_000_000 => PortFeatures::SPEED_10GB_FD,
        40_000_000 if version > Version::V1_0 => PortFeatures::SPEED_40GB_FD,
        100_000_000 if version > Version::V1_0 => PortFeatures::SPEED_100GB_FD,
        _ => PortFeatures::default(),
    }
}
