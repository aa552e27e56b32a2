//! What the controller wants to hear of that it does not ask for. §6.3.6, §7.3.10.

use sluice_openflow::{
    AsyncConfig, AsyncProp, ErrorReason, FlowRemovedReason, FlowRemovedReasons, PacketInReason,
    PacketInReasons, PortReason, PortReasons, Role, Version,
};

use super::error_reasons;

/// Reasons as bits, for those who have the say and for slaves.
#[derive(Debug, Clone, Copy)]
struct RoleMasks {
    master: u32,
    slave: u32,
}

impl RoleMasks {
    const fn wants(self, role: Role, reason: u8) -> bool {
        let mask = if role.0 == Role::SLAVE.0 { self.slave } else { self.master };
        reason < 32 && mask >> reason & 1 == 1
    }
}

/// Which news are told, by kind and role.
#[derive(Debug, Clone, Copy)]
pub(super) struct AsyncFilter {
    packet_in: RoleMasks,
    port_status: RoleMasks,
    flow_removed: RoleMasks,
}

impl AsyncFilter {
    /// What is told if nobody says anything: all but what comes of the time to live, since 1.3; to a slave, ports.
    pub(super) fn new(version: Version) -> Self {
        let error_reasons = if version < Version::V1_4 { 0x07 } else { 0x3f };
        let ttl = if version < Version::V1_3 { 0 } else { PacketInReasons::INVALID_TTL.0 };
        let removed = if version < Version::V1_4 { 0x0f } else { 0x3f };
        Self {
            packet_in: RoleMasks { master: error_reasons & !ttl, slave: 0 },
            port_status: RoleMasks { master: 7, slave: 7 },
            flow_removed: RoleMasks { master: removed, slave: 0 },
        }
    }

    /// Does what a `SET_ASYNC` says. Kinds of which there is nothing to tell are as they are.
    pub(super) fn apply(&mut self, asked: &AsyncConfig) -> Result<(), ErrorReason> {
        for property in &asked.properties {
            match property {
                AsyncProp::PacketInMaster { mask } => self.packet_in.master = mask.0,
                AsyncProp::PacketInSlave { mask } => self.packet_in.slave = mask.0,
                AsyncProp::PortStatusMaster { mask } => self.port_status.master = mask.0,
                AsyncProp::PortStatusSlave { mask } => self.port_status.slave = mask.0,
                AsyncProp::FlowRemovedMaster { mask } => self.flow_removed.master = mask.0,
                AsyncProp::FlowRemovedSlave { mask } => self.flow_removed.slave = mask.0,
                AsyncProp::ExperimenterMaster { .. } | AsyncProp::ExperimenterSlave { .. } => {
                    return Err(error_reasons::ASYNC_UNSUPPORTED);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What a `GET_ASYNC_REPLY` says.
    pub(super) fn to_config(self) -> AsyncConfig {
        let [packets, slave_packets] = [self.packet_in.master, self.packet_in.slave];
        let [ports, slave_ports] = [self.port_status.master, self.port_status.slave];
        let [rules, slave_rules] = [self.flow_removed.master, self.flow_removed.slave];
        AsyncConfig {
            properties: vec![
                AsyncProp::PacketInMaster { mask: PacketInReasons(packets) },
                AsyncProp::PacketInSlave { mask: PacketInReasons(slave_packets) },
                AsyncProp::PortStatusMaster { mask: PortReasons(ports) },
                AsyncProp::PortStatusSlave { mask: PortReasons(slave_ports) },
                AsyncProp::FlowRemovedMaster { mask: FlowRemovedReasons(rules) },
                AsyncProp::FlowRemovedSlave { mask: FlowRemovedReasons(slave_rules) },
            ],
        }
    }

    pub(super) const fn wants_packet(&self, role: Role, reason: PacketInReason) -> bool {
        self.packet_in.wants(role, reason.0)
    }

    pub(super) const fn wants_port(&self, role: Role, reason: PortReason) -> bool {
        self.port_status.wants(role, reason.0)
    }

    pub(super) const fn wants_removed(&self, role: Role, reason: FlowRemovedReason) -> bool {
        self.flow_removed.wants(role, reason.0)
    }
}
