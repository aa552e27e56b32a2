//! Answers that an engine gives in the place of an application, since the application has decided the same before.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use sluice_openflow::{MacAddr, PortNo, Version};

use crate::ctx::SwitchIndex;
use crate::switch_hosts::HostEntry;

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
    /// What is answered.
    pub rule: AnswerRule,
}

/// Which packet-ins are answered, and with how many flow entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerRule {
    /// All between two published hosts, with one flow entry. The engine records when hosts were seen.
    Hosts {
        /// Ticks after which a host that was not seen is unknown.
        timeout: u16,
    },
    /// Those with [ordinary](HostEntry::is_ordinary) packets between two hosts that are published as ends of paths, with a flow entry for
    /// the replies before the other. The engine [reports](crate::App::on_answered) each.
    Paths {
        /// For how long after an answer, and a margin, further packet-ins between both hosts go to the application. Zero if they need not.
        hold_time: Duration,
    },
}

/// A packet-in that the engine has answered by the rule [`AnswerRule::Paths`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredPacket {
    /// The switch.
    pub switch: SwitchIndex,
    /// Source of the packet.
    pub src: MacAddr,
    /// Its destination.
    pub dst: MacAddr,
    /// When it was answered.
    pub at: Instant,
}

/// For engines: what an application has decided and the engine may repeat without asking it.
///
/// The engine answers a packet-in if the frame is untagged and comes from a published host at its port, and is for a published host at
/// another port, and the [rule](AnswerRule) of the switch allows that. All other packet-ins go to the application.
pub trait AnswerCache: Debug {
    /// Sets the time, in ticks that the application defines.
    fn set_tick(&mut self, tick: u16);

    /// Calls `each` with all published hosts that were seen at `tick` or later, and when.
    fn for_each_seen(&self, tick: u16, each: &mut dyn FnMut(SwitchIndex, MacAddr, u16));

    /// Sets the form of the answers for a switch of this worker. Returns whether the engine answers in this form from now on. It does not if it
    /// does not know the form, nor while answers in another form are on their way to the switch: then it answers nothing until a later call
    /// has returned `true`.
    fn set_form(&mut self, switch: SwitchIndex, form: &AnswerForm<'_>) -> bool;

    /// Publishes a host of a switch, at a port where it was seen at `tick`. If it is published at this port and was seen later, that stays.
    fn publish(&mut self, switch: SwitchIndex, host: MacAddr, port: PortNo, tick: u16);

    /// Publishes a host of a switch as an end of paths.
    fn publish_path_host(&mut self, switch: SwitchIndex, host: MacAddr, entry: HostEntry);

    /// Withdraws a host of a switch.
    fn withdraw(&mut self, switch: SwitchIndex, host: MacAddr);

    /// Withdraws all hosts of a switch.
    fn withdraw_all(&mut self, switch: SwitchIndex);

    /// Has packet-ins between two hosts go to the application until `until`, at switches with the rule [`AnswerRule::Paths`].
    fn hold(&mut self, hosts: [MacAddr; 2], until: Instant);
}
