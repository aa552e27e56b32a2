//! What an application has of the world beyond the switch that it hears.

use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, Message};

use crate::ctx::SwitchIndex;
use crate::fast_path_hosts::FastPathHosts;
use crate::view::{Fact, NetworkView, PublishedFact, Stamp};

/// How often what is long gone is forgotten.
const SWEEP: Duration = Duration::from_secs(10);

/// Sentences that are kept for the log in one turn; the rest is counted.
const REPORTS_MAX: usize = 16;

/// The network as this worker knows it, and what is said to those who are not being heard: switches, and workers.
#[derive(Debug)]
pub struct Network {
    view: NetworkView,
    residents: FastPathHosts,
    mail: Vec<(DatapathId, Message)>,
    told: Vec<PublishedFact>,
    reports: Vec<String>,
    unreported: u64,
    /// By the number of the switch.
    rtts: Vec<Option<Duration>>,
    worker: usize,
    swept: Option<Instant>,
}

impl Network {
    /// That of worker `worker`, in which nothing is known.
    pub fn new(worker: usize) -> Self {
        Self {
            view: NetworkView::default(),
            residents: FastPathHosts::default(),
            mail: Vec::new(),
            told: Vec::new(),
            reports: Vec::new(),
            unreported: 0,
            rtts: Vec::new(),
            worker,
            swept: None,
        }
    }

    /// The number of this worker, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// What is known.
    #[inline]
    pub fn view(&self) -> &NetworkView {
        &self.view
    }

    /// Hosts at the switches of this worker of which an ordinary frame says nothing new, for who answers such frames.
    #[inline]
    pub fn fast_path_hosts(&mut self) -> &mut FastPathHosts {
        &mut self.residents
    }

    /// Both, to ask one while the other changes.
    #[inline]
    pub fn view_and_fast_path_hosts(&mut self) -> (&NetworkView, &mut FastPathHosts) {
        (&self.view, &mut self.residents)
    }

    /// To any switch, whoever's it is. What a switch of its version cannot express is logged and left out;
    /// a switch that is not there hears nothing.
    ///
    /// # Cost
    /// A copy and, if another worker holds the switch, a hop between cores.
    pub fn send_to(&mut self, to: DatapathId, message: Message) {
        self.mail.push((to, message));
    }

    /// Says that something is so from now on, to all applications of all workers. What is known already is not said
    /// again. Whether anything is otherwise than before.
    ///
    /// # Cost
    /// A copy, and a hop between cores for every other worker.
    pub fn publish(&mut self, now: Instant, fact: Fact) -> bool {
        if self.view.knows(&fact) {
            return false;
        }
        let stamp = Stamp::new(now, self.worker).after(self.view.stamp_of(&fact));
        let told = PublishedFact { stamp, fact };
        let is_new = self.apply(&told);
        if is_new {
            self.told.push(told);
        }
        is_new
    }

    /// How long a switch of this worker takes to answer, there and back, if an application has measured it. What took
    /// longer than before counts at once, what took less bit by bit: it is for those who wait for an answer.
    #[inline]
    pub fn rtt(&self, sw: SwitchIndex) -> Option<Duration> {
        self.rtts.get(sw.index()).copied().flatten()
    }

    /// Notes how long a switch of this worker took to answer.
    pub fn record_rtt(&mut self, sw: SwitchIndex, took: Duration) {
        if self.rtts.len() <= sw.index() {
            self.rtts.resize(sw.index() + 1, None);
        }
        if let Some(rtt) = self.rtts.get_mut(sw.index()) {
            *rtt = Some(rtt.map_or(took, |rtt| took.max((rtt * 7 + took) / 8)));
        }
    }

    /// Forgets how long a switch takes to answer, whose number will be another's.
    pub fn forget_rtt(&mut self, sw: SwitchIndex) {
        if let Some(rtt) = self.rtts.get_mut(sw.index()) {
            *rtt = None;
        }
    }

    /// Says to people that something is wrong in the network: one line of the log, of which there are only so many. For
    /// what happens once in a while; what happens for each packet is counted.
    pub fn report(&mut self, sentence: impl FnOnce() -> String) {
        if self.reports.len() < REPORTS_MAX {
            self.reports.push(sentence());
        } else {
            self.unreported += 1;
        }
    }

    /// For engines: takes what is for the log since it was asked last, and how much more there was.
    pub fn take_reports(&mut self) -> (Vec<String>, u64) {
        (std::mem::take(&mut self.reports), std::mem::take(&mut self.unreported))
    }

    /// For engines: what another worker said. Whether anything is otherwise than before.
    pub fn apply_remote(&mut self, told: &PublishedFact) -> bool {
        self.apply(told)
    }

    /// Takes a fact in; who leaves its place is no resident there any more. Whether anything is otherwise than before.
    fn apply(&mut self, told: &PublishedFact) -> bool {
        let Fact::Host(id, host) = &told.fact else { return self.view.apply(told) };
        let old = self.view.host(*id).map(|old| old.at);
        let is_new = self.view.apply(told);
        let left = old.filter(|&old| host.as_ref().is_none_or(|host| host.at != old));
        if let Some(left) = left.filter(|_| is_new) {
            self.residents.remove(left.switch, *id);
        }
        is_new
    }

    /// For engines: takes what was written to switches.
    pub fn take_messages(&mut self) -> Vec<(DatapathId, Message)> {
        std::mem::take(&mut self.mail)
    }

    /// For engines: takes what was told since it was asked last.
    pub fn take_facts(&mut self) -> Vec<PublishedFact> {
        std::mem::take(&mut self.told)
    }

    /// For engines: whether there is no mail, no fact and no line of the log to carry.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.mail.is_empty() && self.told.is_empty() && self.reports.is_empty()
    }

    /// For engines: lets time pass.
    pub fn on_tick(&mut self, now: Instant) {
        if self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP) {
            self.swept = Some(now);
            self.view.sweep(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{MacAddr, PortNo, VlanId};

    use super::*;
    use crate::view::{Host, HostId, SwitchPort};

    #[test]
    fn an_answer_that_takes_longer_counts_at_once_and_a_quicker_one_bit_by_bit() {
        let (mut network, ms) = (Network::new(0), Duration::from_millis);
        let mut measured = |took| {
            network.record_rtt(SwitchIndex(3), ms(took));
            network.rtt(SwitchIndex(3)).unwrap()
        };
        assert_eq!([measured(80), measured(160), measured(80)], [ms(80), ms(160), ms(150)]);
        network.forget_rtt(SwitchIndex(3));
        assert_eq!((network.rtt(SwitchIndex(3)), network.rtt(SwitchIndex(4))), (None, None));
    }

    const ID: HostId = HostId { mac: MacAddr([2; 6]), vlan: VlanId(0) };

    fn at(port: u32) -> SwitchPort {
        SwitchPort::new(DatapathId(1), PortNo(port))
    }

    fn host(port: u32) -> Fact {
        Fact::Host(ID, Some(Host { at: at(port), addrs: vec![] }))
    }

    /// It is not told to others, so it must not hold against them either.
    #[test]
    fn what_is_known_and_said_again_is_not_said_later() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let ms = |n| now + Duration::from_millis(n);
        let [mut here, mut there] = [Network::new(0), Network::new(1)];
        for (network, at, port) in [(&mut here, 1, 1), (&mut there, 2, 2)] {
            assert!(network.publish(ms(at), host(port)));
        }
        assert!(!here.publish(ms(3), host(1)));
        let [said, other] = [&mut here, &mut there].map(Network::take_facts);
        assert_eq!((said.len(), other.len()), (1, 1));
        assert!(!there.apply_remote(&said[0]) && here.apply_remote(&other[0]));
        assert_eq!([here, there].map(|network| network.view().host(ID).unwrap().at), [at(2); 2]);
    }

    /// Two workers in a turn that began at one time: who has heard the other comes after it.
    #[test]
    fn who_has_heard_a_fact_comes_after_it() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let mut workers = [Network::new(0), Network::new(1)];
        for n in 1..10 {
            let (teller, other) = (n % 2, (n + 1) % 2);
            let port = u32::try_from(n).unwrap();
            assert!(workers[teller].publish(now, host(port)), "{n}");
            for told in workers[teller].take_facts() {
                assert!(workers[other].apply_remote(&told), "{n}");
            }
            for network in &workers {
                assert_eq!(network.view().host(ID).map(|host| host.at), Some(at(port)));
            }
        }
    }
}
