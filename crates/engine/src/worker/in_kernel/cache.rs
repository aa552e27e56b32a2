//! What the applications publish goes to the program.

use std::time::Instant;

use sluice_kernel::{AnswerForm, AnswerRule};
use sluice_openflow::{MacAddr, PortNo};
use sluice_sdk::{AnswerCache, HostEntry, SwitchIndex};

use super::InKernel;

/// Reading the whole table takes as long as the publication of so many hosts.
pub(super) const WHOLE_TABLE: u32 = 16_384;

impl AnswerCache for InKernel {
    fn set_tick(&mut self, tick: u16) {
        self.answers.set_tick(tick);
    }

    fn for_each_seen(&self, tick: u16, each: &mut dyn FnMut(SwitchIndex, MacAddr, u16)) {
        self.answers.for_each_seen(tick, |slot, mac, seen| {
            if let Some(&index) = self.indices.get(&slot) {
                each(index, MacAddr(mac), seen);
            }
        });
    }

    fn set_form(&mut self, switch: SwitchIndex, form: &sluice_sdk::AnswerForm<'_>) -> bool {
        let sluice_sdk::AnswerForm { version, flow_mod, packet_out, rule } = *form;
        let Some(switch) = self.get_mut(switch) else { return false };
        let rule = match rule {
            sluice_sdk::AnswerRule::Hosts { timeout } => AnswerRule::Hosts { timeout },
            sluice_sdk::AnswerRule::Paths { hold_time } => AnswerRule::Paths { hold_time },
        };
        let is_reported = matches!(rule, AnswerRule::Paths { .. });
        let known = switch.reported.unwrap_or_else(|| switch.session.answered().packet_ins);
        switch.reported = is_reported.then_some(known);
        let version = version.0;
        switch.session.set_form(&AnswerForm { version, flow_mod, packet_out, rule })
    }

    fn publish(&mut self, switch: SwitchIndex, host: MacAddr, port: PortNo, tick: u16) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            self.publications = self.publications.wrapping_add(1);
            // Without room, the worker answers.
            self.answers.publish(&mut switch.session, host.0, port.0, tick);
        }
    }

    fn publish_path_host(&mut self, switch: SwitchIndex, host: MacAddr, entry: HostEntry) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            self.publications = self.publications.wrapping_add(1);
            self.answers.publish_path_host(&mut switch.session, host.0, entry.bits());
        }
    }

    fn withdraw(&mut self, switch: SwitchIndex, host: MacAddr) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            self.answers.withdraw(&mut switch.session, host.0);
        }
    }

    fn withdraw_all(&mut self, switch: SwitchIndex) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            if switch.session.host_count() > 0 {
                self.publications = self.publications.wrapping_add(WHOLE_TABLE);
            }
            self.answers.withdraw_all(&mut switch.session);
        }
    }

    fn hold(&mut self, hosts: [MacAddr; 2], until: Instant) {
        self.answers.hold(hosts.map(|host| host.0), until);
    }
}
