//! Which asynchronous messages the controller receives. §6.3.6, §7.3.10.

use sluice_openflow::{
    AsyncConfig, AsyncProp, ErrorReason, FlowRemovedReason, FlowRemovedReasons, PacketInReason,
    PacketInReasons, PortReason, PortReasons, Role, Version,
};

use super::error_reasons;

/// Bits per reason, for a master or equal and for a slave.
#[derive(Debug, Clone, Copy)]
struct RoleMasks<M> {
    master: M,
    slave: M,
}

impl<M: Into<u64>> RoleMasks<M> {
    fn wants(self, role: Role, reason: impl Into<u32>) -> bool {
        let mask = if role == Role::SLAVE { self.slave } else { self.master };
        mask.into().checked_shr(reason.into()).is_some_and(|bits| bits & 1 == 1)
    }
}

/// The asynchronous messages that the controller receives, by type, role and reason.
#[derive(Debug, Clone, Copy)]
pub(super) struct AsyncFilter {
    packet_in: RoleMasks<u64>,
    port_status: RoleMasks<u32>,
    flow_removed: RoleMasks<u32>,
}

impl AsyncFilter {
    /// The default: everything except, since 1.3, packet-ins for an invalid TTL; a slave receives port status only.
    pub(super) fn new(version: Version) -> Self {
        let packet_in_reasons = if version < Version::V1_4 { 0x07 } else { 0x3f };
        let ttl = if version < Version::V1_3 { 0 } else { PacketInReasons::INVALID_TTL.0 };
        let removed_reasons = if version < Version::V1_4 { 0x0f } else { 0x3f };
        Self {
            packet_in: RoleMasks { master: packet_in_reasons & !ttl, slave: 0 },
            port_status: RoleMasks { master: 7, slave: 7 },
            flow_removed: RoleMasks { master: removed_reasons, slave: 0 },
        }
    }

    /// Applies a `SET_ASYNC`. Types that this switch never sends are ignored.
    pub(super) fn apply(&mut self, config: &AsyncConfig) -> Result<(), ErrorReason> {
        for property in &config.properties {
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

    /// The contents of a `GET_ASYNC_REPLY`.
    pub(super) fn to_config(self) -> AsyncConfig {
        let [packets, slave_packets] = [self.packet_in.master, self.packet_in.slave];
        let [ports, slave_ports] = [self.port_status.master, self.port_status.slave];
        let [removals, slave_removals] = [self.flow_removed.master, self.flow_removed.slave];
        AsyncConfig {
            properties: vec![
                AsyncProp::PacketInMaster { mask: PacketInReasons(packets) },
                AsyncProp::PacketInSlave { mask: PacketInReasons(slave_packets) },
                AsyncProp::PortStatusMaster { mask: PortReasons(ports) },
                AsyncProp::PortStatusSlave { mask: PortReasons(slave_ports) },
                AsyncProp::FlowRemovedMaster { mask: FlowRemovedReasons(removals) },
                AsyncProp::FlowRemovedSlave { mask: FlowRemovedReasons(slave_removals) },
            ],
        }
    }

    pub(super) fn wants_packet(&self, role: Role, reason: PacketInReason) -> bool {
        self.packet_in.wants(role, reason.0)
    }

    pub(super) fn wants_port(&self, role: Role, reason: PortReason) -> bool {
        self.port_status.wants(role, reason.0)
    }

    pub(super) fn wants_removed(&self, role: Role, reason: FlowRemovedReason) -> bool {
        self.flow_removed.wants(role, reason.0)
    }
}
