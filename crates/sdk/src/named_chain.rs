//! Chains of applications that are chosen by name.

use std::fmt;
use std::time::Instant;

use sluice_openflow::value::Value;
use sluice_openflow::view::{ErrorMsg, FlowRemoved, PacketIn, PacketIns};
use sluice_openflow::{Encoder, MultipartType, PortStatus, SwitchFeatures};

use crate::answers::{AnswerCache, AnsweredPacket};
use crate::app::{App, Verdict};
use crate::application::AppConfigs;
use crate::ctx::{Ctx, SwitchIndex};
use crate::metric::AppMetric;
use crate::network::Network;
use crate::registry::{ChainError, ChainedApp, Registry};
use crate::request::{Answer, Ticket};
use crate::timer::TimerId;
use crate::view::PublishedFact;

/// The chain of applications of one worker. A packet-in goes to each of them in order, until one stops it.
#[derive(Default)]
pub struct Chain(Vec<Link>);

struct Link {
    name: &'static str,
    app: Box<dyn ChainedApp>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|link| link.name)).finish()
    }
}

impl Chain {
    /// The applications of `registry` with these names, in this order.
    ///
    /// # Errors
    /// As [`Registry::check`].
    pub fn new(
        registry: &Registry,
        names: &[String],
        configs: &AppConfigs,
    ) -> Result<Self, ChainError> {
        registry.check(names)?;
        let apps = names.iter().filter_map(|name| registry.find(name));
        let links = apps.map(|app| Link { name: app.name, app: app.make(configs.get(app.name)) });
        Ok(Self(links.collect()))
    }

    /// Applies new configurations to all applications.
    pub fn configure(&mut self, configs: &AppConfigs) {
        for Link { name, app } in &mut self.0 {
            app.configure_any(configs.get(name));
        }
    }

    /// The application in whose place an engine may answer. The others need not get the packet-ins that it would answer.
    fn publisher(&self) -> Option<usize> {
        let at = self.0.iter().position(|link| link.app.can_publish_answers())?;
        let is_alone = self.0.len() == 1;
        let is_bypass_allowed =
            || self.0.iter().take(at + 1).all(|link| !link.app.inspects_every_packet());
        (is_alone || is_bypass_allowed()).then_some(at)
    }

    #[inline]
    fn apps(&mut self) -> impl Iterator<Item = &mut Box<dyn ChainedApp>> {
        self.0.iter_mut().map(|link| &mut link.app)
    }
}

impl App for Chain {
    fn can_publish_answers(&self) -> bool {
        self.publisher().is_some()
    }

    fn publishes_paths(&self) -> bool {
        self.0.iter().any(|link| link.app.publishes_paths())
    }

    fn update_from_answers(&mut self, now: Instant, cache: &mut dyn AnswerCache) {
        self.apps().for_each(|app| app.update_from_answers(now, cache));
    }

    fn on_answered(&mut self, answered: &AnsweredPacket, network: &mut Network) {
        self.apps().for_each(|app| app.on_answered(answered, network));
    }

    fn publish_answers(
        &mut self,
        switch: SwitchIndex,
        now: Instant,
        network: &mut Network,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        // It may be another than before, or none: a configuration decides which packets an application inspects.
        let publisher = self.publisher().and_then(|at| self.0.get_mut(at));
        publisher.is_some_and(|link| link.app.publish_answers(switch, now, network, cache))
    }

    fn on_iteration(&mut self, now: Instant) {
        self.apps().for_each(|app| app.on_iteration(now));
    }

    fn initial_messages(&self, out: &mut Encoder<'_>) {
        self.0.iter().for_each(|link| link.app.initial_messages(out));
    }

    fn on_switch_connected(&mut self, features: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.apps().for_each(|app| app.on_switch_connected(features, ctx));
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        self.apps().for_each(|app| app.on_switch_disconnected(sw, now, network));
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.apps().for_each(|app| app.on_tick(ctx));
    }

    fn on_fact(&mut self, published: &PublishedFact, now: Instant, network: &mut Network) {
        self.apps().for_each(|app| app.on_fact(published, now, network));
    }

    fn on_deferred_work(&mut self, now: Instant, network: &mut Network) {
        self.apps().for_each(|app| app.on_deferred_work(now, network));
    }

    fn on_timer(&mut self, timer: TimerId, now: Instant, network: &mut Network) {
        self.apps().for_each(|app| app.on_timer(timer, now, network));
    }

    fn on_switch_work(&mut self, ctx: &mut Ctx<'_>) {
        self.apps().for_each(|app| app.on_switch_work(ctx));
    }

    #[inline]
    fn fast_path(&mut self, packet_ins: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        for app in self.apps() {
            app.fast_path(packet_ins, ctx);
            if app.inspects_every_packet() {
                return;
            }
        }
    }

    fn inspects_every_packet(&self) -> bool {
        self.0.iter().any(|link| link.app.inspects_every_packet())
    }

    #[inline]
    fn on_packet_ins(&mut self, packet_ins: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        if let [Link { app, .. }] = &mut self.0[..] {
            return app.on_packet_ins(packet_ins, ctx);
        }
        loop {
            self.fast_path(packet_ins, ctx);
            let Some(p) = packet_ins.next() else { break };
            self.on_packet_in(&p, ctx);
        }
    }

    #[inline]
    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let is_stopped = self.apps().any(|app| app.on_packet_in(p, ctx) == Verdict::Stop);
        if is_stopped { Verdict::Stop } else { Verdict::Continue }
    }

    fn on_flow_removed(&mut self, removed: &FlowRemoved<'_>, ctx: &mut Ctx<'_>) {
        self.apps().for_each(|app| app.on_flow_removed(removed, ctx));
    }

    fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        self.apps().for_each(|app| app.on_port_status(status, ctx));
    }

    fn on_changes_lost(&mut self, ctx: &mut Ctx<'_>) {
        self.apps().for_each(|app| app.on_changes_lost(ctx));
    }

    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        self.apps().for_each(|app| app.on_error(error, ctx));
    }

    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        self.apps().for_each(|app| app.on_barrier_reply(xid, ctx));
    }

    fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        self.apps().for_each(|app| app.on_multipart_reply(xid, kind, body, ctx));
    }

    fn on_answer(&mut self, ticket: Ticket, answer: &Answer, now: Instant, network: &mut Network) {
        self.apps().for_each(|app| app.on_answer(ticket, answer, now, network));
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        self.0.iter().for_each(|link| link.app.metrics(put));
    }

    fn state_of(&self, application: &str) -> Option<Value> {
        let link = self.0.iter().find(|link| link.name == application)?;
        link.app.state()
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{DatapathId, Version};

    use super::*;
    use crate::application::Application;
    use crate::registry::RegistryError;

    /// Counts the events that it gets, and says so in its state.
    #[derive(Debug, Default)]
    struct Counter {
        first: u64,
        events: Vec<&'static str>,
    }

    impl App for Counter {
        fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
            let request = sluice_openflow::Message::BarrierRequest;
            ctx.network.request(ctx.datapath_id, request, std::time::Duration::ZERO);
        }

        fn on_timer(&mut self, _: TimerId, _: Instant, _: &mut Network) {
            self.events.push("timer");
        }

        fn on_answer(&mut self, _: Ticket, _: &Answer, _: Instant, _: &mut Network) {
            self.events.push("answer");
        }

        fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
            put(AppMetric::gauge("counter_first", "Its configuration", self.first));
        }

        fn state(&self) -> Option<Value> {
            Some(Value::Number(self.first + self.events.len() as u64))
        }
    }

    impl Application for Counter {
        const NAME: &'static str = "counter";
        const DESCRIPTION: &'static str = "counts";
        type Config = u64;

        fn new(first: &u64) -> Self {
            Self { first: *first, ..Self::default() }
        }

        fn configure(&mut self, first: &u64) {
            self.first = *first;
        }
    }

    #[derive(Debug, Default)]
    struct Follower;

    impl App for Follower {}

    impl Application for Follower {
        const NAME: &'static str = "follower";
        const DESCRIPTION: &'static str = "requires another";
        const REQUIRES: &'static [&'static str] = &["counter"];
        type Config = ();

        fn new((): &()) -> Self {
            Self
        }

        fn configure(&mut self, (): &()) {}
    }

    /// Publishes answers, and says whether it inspects every packet.
    #[derive(Debug, Default)]
    struct Publisher {
        inspects: bool,
    }

    impl App for Publisher {
        fn can_publish_answers(&self) -> bool {
            true
        }

        fn inspects_every_packet(&self) -> bool {
            self.inspects
        }
    }

    impl Application for Publisher {
        const NAME: &'static str = "publisher";
        const DESCRIPTION: &'static str = "publishes answers";
        type Config = bool;

        fn new(&inspects: &bool) -> Self {
            Self { inspects }
        }

        fn configure(&mut self, &inspects: &bool) {
            self.inspects = inspects;
        }
    }

    /// Publishes no answers, and inspects every packet or not.
    #[derive(Debug, Default)]
    struct Bystander(Publisher);

    impl App for Bystander {
        fn inspects_every_packet(&self) -> bool {
            self.0.inspects
        }
    }

    impl Application for Bystander {
        const NAME: &'static str = "bystander";
        const DESCRIPTION: &'static str = "has no answers";
        type Config = Option<bool>;

        fn new(inspects: &Option<bool>) -> Self {
            Self(Publisher { inspects: inspects.unwrap_or_default() })
        }

        fn configure(&mut self, inspects: &Option<bool>) {
            self.0.inspects = inspects.unwrap_or_default();
        }
    }

    /// A limit of packet-ins, or a firewall, is no way round.
    #[test]
    fn a_chain_has_answers_if_no_application_has_to_see_the_packets() {
        let mut registry = Registry::default();
        registry.register::<Publisher>().unwrap();
        registry.register::<Bystander>().unwrap();
        registry.register::<Counter>().unwrap();
        let configs = |publisher: bool, bystander: bool| {
            let configs = AppConfigs::default().with::<Publisher>(&publisher);
            configs.with::<Bystander>(&Some(bystander))
        };
        let can_answer = |apps: &str, configs: &AppConfigs| {
            Chain::new(&registry, &names(apps), configs).unwrap().can_publish_answers()
        };
        for inspects in [false, true] {
            assert!(can_answer("publisher", &configs(inspects, false)), "alone");
            let both = configs(inspects, false);
            assert_eq!(can_answer("bystander,publisher", &both), !inspects);
            assert_eq!(can_answer("publisher,counter", &both), !inspects, "it gets none of them");
            let other = configs(false, inspects);
            assert_eq!(can_answer("bystander,publisher", &other), !inspects);
            assert!(!can_answer("counter,publisher", &both) && !can_answer("bystander", &both));
        }
        let mut chain =
            Chain::new(&registry, &names("bystander,publisher"), &configs(false, true)).unwrap();
        for is_limited in [true, false, true] {
            chain.configure(&configs(false, is_limited));
            assert_eq!(chain.can_publish_answers(), !is_limited);
        }
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        registry.register::<Counter>().unwrap();
        registry.register::<Follower>().unwrap();
        registry
    }

    fn names(names: &str) -> Vec<String> {
        names.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn a_chain_passes_answers_and_timers_on_and_shows_metrics_and_state() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let configs = AppConfigs::default().with::<Counter>(&5);
        let mut chain = Chain::new(&registry(), &names("counter,follower"), &configs).unwrap();
        let (mut tx, mut urgent, mut xid, mut network) = (vec![], vec![], 1, Network::new(0));
        let timer = network.set_timer(now).unwrap();
        let out = Encoder::new(&mut tx, Version::V1_3, &mut xid);
        let (sw, id) = (SwitchIndex(0), DatapathId(1));
        chain.on_tick(&mut Ctx::new(now, sw, id, out, &mut urgent, &mut network));
        let ticket = network.take_requests().first().unwrap().ticket;
        assert_eq!(chain.state_of("counter"), Some(Value::Number(5)));
        chain.on_answer(ticket, &Answer::Done, now, &mut network);
        chain.on_timer(timer, now, &mut network);
        assert_eq!(chain.state_of("counter"), Some(Value::Number(7)));
        assert_eq!([chain.state_of("follower"), chain.state_of("other")], [None, None]);
        let mut metrics = vec![];
        chain.metrics(&mut |metric| metrics.push((metric.name, metric.value)));
        assert_eq!(metrics, [("counter_first", 5)]);
        chain.configure(&AppConfigs::default().with::<Counter>(&9));
        assert_eq!(chain.state_of("counter"), Some(Value::Number(11)));
        // Without a configuration it has its default.
        chain.configure(&AppConfigs::default());
        assert_eq!(chain.state_of("counter"), Some(Value::Number(2)));
        assert_eq!(format!("{chain:?}"), r#"["counter", "follower"]"#);
    }

    #[test]
    fn names_are_checked() {
        let error = |text: &str| registry().check(&names(text)).unwrap_err().to_string();
        assert_eq!(error("countr"), "unknown application \"countr\" (known: counter, follower)");
        assert_eq!(error("counter,counter"), "application \"counter\" is given twice");
        let missing = "follower requires counter before it, as in counter,follower";
        assert_eq!(error("follower"), missing);
        assert_eq!(error("follower,counter"), missing);
        assert_eq!(registry().check(&names("counter,follower")), Ok(()));
        assert_eq!(registry().check(&[]), Ok(()));
        assert!(Chain::new(&registry(), &names("follower"), &AppConfigs::default()).is_err());
    }

    #[test]
    fn a_name_can_be_registered_once() {
        let mut registry = registry();
        let taken = registry.register::<Counter>();
        assert_eq!(taken, Err(RegistryError::NameTaken("counter")));
    }
}
