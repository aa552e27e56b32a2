//! Answers that an engine gives in the place of an application, since the application has decided the same before.

use std::fmt::Debug;

use sluice_openflow::{MacAddr, PortNo, Version};

use crate::ctx::SwitchIndex;

/// The messages with which an application answers a packet-in from a known host at its port to another known host. Transaction id, buffer
/// id, ports, addresses and length are filled in for each answer.
#[derive(Debug, Clone, Copy)]
pub struct AnswerForm<'a> {
    /// Version of both messages.
    pub version: Version,
    /// The flow entry: a match of ingress port, source, destination and VLAN, in this order, and an output.
    pub flow_mod: &'a [u8],
    /// The `PACKET_OUT` with one output, without a frame, for packets that the switch has not buffered.
    pub packet_out: &'a [u8],
    /// Ticks after which a host that was not seen is unknown.
    pub timeout: u16,
}

/// For engines: what an application has decided and the engine may repeat without asking it.
///
/// The engine answers a packet-in if the frame is untagged and comes from a published host at its port, and is for a published host at
/// another port, and both were seen within the time-out. It records that the source was seen. All other packet-ins go to the application.
pub trait AnswerCache: Debug {
    /// Sets the time, in ticks that the application defines.
    fn set_tick(&mut self, tick: u16);

    /// Calls `each` with all published hosts that were seen at `tick` or later, and when.
    fn for_each_seen(&self, tick: u16, each: &mut dyn FnMut(SwitchIndex, MacAddr, u16));

    /// Sets the form of the answers for a switch of this worker. There are none before.
    fn set_form(&mut self, switch: SwitchIndex, form: &AnswerForm<'_>);

    /// Publishes a host of a switch, at a port where it was seen at `tick`. If it is published at this port and was seen later, that stays.
    fn publish(&mut self, switch: SwitchIndex, host: MacAddr, port: PortNo, tick: u16);

    /// Withdraws a host of a switch.
    fn withdraw(&mut self, switch: SwitchIndex, host: MacAddr);

    /// Withdraws all hosts of a switch.
    fn withdraw_all(&mut self, switch: SwitchIndex);
}
