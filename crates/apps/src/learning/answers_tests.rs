//! An engine answers in the place of the application what that has published.

use std::collections::BTreeMap;

use sluice_base::Rng;
use sluice_fastpath::TemplateValues;
use sluice_openflow::{Encoder, Ethernet, MacAddr, PortNo, Version};
use sluice_sdk::{AnswerForm, AnswerRule, HostEntry};

use super::tests::{TestSwitch, put_frame};
use super::*;

/// What an engine knows that answers in the place of the application, and how it decides.
#[derive(Debug, Default)]
struct ModelCache {
    tick: u16,
    timeout: u16,
    hosts: BTreeMap<MacAddr, (PortNo, u16)>,
    /// Answers in another form are on their way.
    is_busy: bool,
}

impl AnswerCache for ModelCache {
    fn set_tick(&mut self, tick: u16) {
        self.tick = tick;
    }

    fn for_each_seen(&self, tick: u16, each: &mut dyn FnMut(SwitchIndex, MacAddr, u16)) {
        let seen = self.hosts.iter().filter(|(_, (_, seen))| *seen >= tick);
        seen.for_each(|(&mac, &(_, seen))| each(SwitchIndex(0), mac, seen));
    }

    fn set_form(&mut self, _: SwitchIndex, form: &AnswerForm<'_>) -> bool {
        let AnswerRule::Hosts { timeout } = form.rule else { panic!("{form:?}") };
        self.timeout = timeout;
        !self.is_busy
    }

    fn publish_path_host(&mut self, _: SwitchIndex, host: MacAddr, _: HostEntry) {
        panic!("{host}");
    }

    fn hold(&mut self, hosts: [MacAddr; 2], _: Instant) {
        panic!("{hosts:?}");
    }

    fn publish(&mut self, _: SwitchIndex, host: MacAddr, port: PortNo, tick: u16) {
        let later = self.hosts.get(&host).filter(|known| known.0 == port).map(|known| known.1);
        self.hosts.insert(host, (port, tick.max(later.unwrap_or(0))));
    }

    fn withdraw(&mut self, _: SwitchIndex, host: MacAddr) {
        self.hosts.remove(&host);
    }

    fn withdraw_all(&mut self, _: SwitchIndex) {
        self.hosts.clear();
    }
}

impl ModelCache {
    /// The output port for a packet-in that it answers.
    fn route(&mut self, p: &PacketIn<'_>) -> Option<PortNo> {
        let eth = Ethernet::new(p.frame).filter(|eth| !eth.tagged)?;
        if p.buffer_id.is_none() && p.frame.len() + 4 < p.total_len.into() {
            return None;
        }
        let find = |mac| {
            let &(port, seen) = self.hosts.get(&mac)?;
            (self.tick - seen <= self.timeout).then_some(port)
        };
        let (at, to) = (find(eth.src)?, find(eth.dst)?);
        if at != p.in_port || to == p.in_port {
            return None;
        }
        self.hosts.insert(eth.src, (at, self.tick));
        Some(to)
    }
}

fn publish_answers(switch: &mut TestSwitch, cache: &mut ModelCache) -> bool {
    let (index, mut network) = (SwitchIndex(0), Network::new(0));
    switch.app.publish_answers(index, switch.now, &mut network, cache)
}

/// Appends the answer to a packet-in in the form that the application has published.
fn answer_in_form(switch: &mut TestSwitch, p: &PacketIn<'_>, out_port: PortNo) {
    let bridge = switch.app.bridges[0].as_ref().unwrap();
    let (buffer_id, in_port) = (p.buffer_id, p.in_port);
    let eth = Ethernet::new(p.frame).unwrap().header;
    let values = TemplateValues { buffer_id, in_port, eth, vlan: None, out_port };
    let mut out = Encoder::new(&mut switch.tx, switch.version, &mut switch.xid);
    bridge.messages().flow::<true>(&mut out, &values).unwrap();
    if buffer_id.is_none() {
        bridge.messages().packet_out::<true>(&mut out, &values, p.frame).unwrap();
    }
}

/// An engine that answers in the place of the application, and asks it for the rest, sends what the application alone would send:
/// hosts move and expire, and ports go down.
#[test]
fn an_engine_that_repeats_what_was_published_sends_what_the_application_would_send() {
    for hosts in [20, 100] {
        for version in [Version::V1_0, Version::V1_3] {
            compare_with_cache(hosts, version);
        }
    }
}

#[test]
fn without_templates_an_engine_answers_nothing() {
    for templates in [true, false] {
        let cfg = Config { templates, ..Config::default() };
        let (mut switch, mut cache) =
            (TestSwitch::new(&cfg, Version::V1_3, 9), ModelCache::default());
        let (mut rx, mut xid, mut rng) = (Vec::new(), 0, Rng::new(9));
        let mut out = Encoder::new(&mut rx, Version::V1_3, &mut xid);
        (0..100).for_each(|_| put_frame(&mut rng, 20, 5, &mut out));
        let mut packets = PacketIns::new(Version::V1_3, &rx);
        switch.with_ctx(|app, ctx| app.on_packet_ins(&mut packets, ctx));
        cache.is_busy = true;
        assert!(!publish_answers(&mut switch, &mut cache), "the form is another");
        cache.is_busy = false;
        assert_eq!(publish_answers(&mut switch, &mut cache), templates);
        assert_eq!(cache.hosts.is_empty(), !templates);
    }
}

fn compare_with_cache(hosts: u32, version: Version) {
    let cfg = Config { host_timeout: Duration::from_secs(5), ..Config::default() };
    let (mut rng, mut cache, mut answered) = (Rng::new(9), ModelCache::default(), 0);
    let [mut alone, mut behind] = [(); 2].map(|()| TestSwitch::new(&cfg, version, 9));
    let start = alone.now;
    for second in 0..300 {
        let now = start + Duration::from_secs(second);
        behind.now = now;
        behind.app.update_from_answers(now, &mut cache);
        for switch in [&mut alone, &mut behind] {
            switch.app.on_iteration(now);
            switch.now = now;
        }
        let (mut rx, mut xid) = (Vec::new(), 0);
        let mut out = Encoder::new(&mut rx, version, &mut xid);
        let packets = if rng.below(5) == 0 { 300 } else { rng.below(20) };
        (0..packets).for_each(|_| put_frame(&mut rng, hosts, 5, &mut out));
        for p in PacketIns::new(version, &rx) {
            alone.with_ctx(|app, ctx| _ = app.on_packet_in(&p, ctx));
            if let Some(out_port) = cache.route(&p) {
                answer_in_form(&mut behind, &p, out_port);
                answered += 1;
            } else {
                behind.with_ctx(|app, ctx| _ = app.on_packet_in(&p, ctx));
                publish_answers(&mut behind, &mut cache);
            }
            assert!(alone.tx == behind.tx, "{version} {hosts} second {second}");
        }
        alone.tx.clear();
        behind.tx.clear();
        if rng.below(10) == 0 {
            let port = sluice_openflow::Port {
                port_no: PortNo(1 + rng.below(4)),
                ..sluice_openflow::Port::default()
            };
            let status = PortStatus { reason: PortReason::DELETE, port };
            alone.with_ctx(|app, ctx| app.on_port_status(&status, ctx));
            behind.with_ctx(|app, ctx| app.on_port_status(&status, ctx));
            publish_answers(&mut behind, &mut cache);
        }
        assert_eq!(alone.metrics(), behind.metrics(), "second {second}");
    }
    assert!(answered > 1000, "{answered}");
}
