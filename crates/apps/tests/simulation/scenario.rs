//! The network of a seed, from its start to the checks after it has recovered.

use super::*;

/// A simulated network with its controller, and what happens in it.
pub(super) struct Scenario {
    pub(super) net: ChainSimulation,
    /// What describes the network in messages about failures.
    pub(super) context: String,
    seed: u64,
    rng: Rng,
    flooding: Flooding,
    conditions: NetworkConditions,
    engine_conditions: Conditions,
    is_overloaded: bool,
    segments: Segments,
    refusals: Refusals,
    lies: Lies,
    members: Members,
    made_up_hosts: MadeUpHosts,
    reloads: Reloads,
    requests: Requests,
    drains: Drains,
}

impl Scenario {
    /// The network of `seed`, whose switches are about to connect.
    pub(super) fn new(seed: u64) -> Result<Self, String> {
        let mut rng = Rng::new(seed);
        let shape = SHAPES.get(rng.below(9) as usize).unwrap();
        let mut topology = Topology::from_text(shape).map_err(|e| e.to_string())?;
        topology
            .set_impairments(LinkImpairments { delay: LINK_DELAY, ..LinkImpairments::default() });
        let vlan_hosts = add_vlans(seed, &mut topology);
        let versions = [Version::V1_0, Version::V1_3, Version::V1_3, Version::V1_5];
        let version = *versions.get(rng.below(4) as usize).unwrap();
        let conditions = NetworkConditions::new(seed);
        let lies = Lies::new(seed);
        let refusals = Refusals::new(seed, topology.switches.len(), &conditions);
        let mut options = network_options(seed, &mut rng, version, &conditions);
        options.switch.table_entries_max = refusals.table_entries_max.unwrap_or(TABLE_ENTRIES_MAX);
        options.spare_ports += u16::from(lies.has_silent_moves);
        options.spare_ports += if Segments::are_planned(seed) { Segments::PORTS } else { 0 };
        let names: Vec<_> = conditions.apps.iter().map(|&name| name.to_owned()).collect();
        // From a separate stream, so that the other choices of a seed do not depend on it.
        let mut more = Rng::new(!seed);
        let flooding = match more.below(4) {
            0 => Flooding::Tree,
            1 => Flooding::Controller,
            _ => Flooding::Auto,
        };
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let mut config = app_config(seed, flooding, refusals.matching, start);
        let made_up_hosts = MadeUpHosts::new(seed);
        made_up_hosts.configure(&mut config);
        let has_snooping = config.forwarding.multicast.is_some();
        let apps = |_| -> Chain { chain(&names, &config).unwrap() };
        // The choice that was made here before there were four workers, so that the others of a seed stay.
        rng.below(3);
        let is_overloaded = more.below(4) == 0;
        let mut engine = engine_options(seed, &conditions, is_overloaded);
        let has_small_limits =
            set_small_limits(seed, topology.switches.len(), &conditions, &mut engine);
        engine.conditions.silent_end_odds = if more.below(2) == 0 { 2 } else { 0 };
        let controller = SimulatedEngine::new(&engine, start, apps);
        let mut net = NetworkSimulation::new(topology, &options, start, controller)
            .map_err(|e| e.to_string())?;
        let segments = Segments::new(seed, &mut net).map_err(|e| e.to_string())?;
        refusals.apply(&mut net);
        let context = format!(
            "{segments:?}, {refusals:?}, {lies:?}, VLANs {vlan_hosts:?}, {shape} in {version}, floods by {flooding:?}, snooping {has_snooping}, small limits {has_small_limits}, {conditions:?}"
        );
        let engine_conditions = engine.conditions;
        let members = Members::new(seed, has_snooping);
        let reloads = Reloads::new(seed, &config);
        Ok(Self {
            net,
            context,
            seed,
            rng,
            flooding,
            conditions,
            engine_conditions,
            is_overloaded,
            segments,
            refusals,
            lies,
            members,
            made_up_hosts,
            reloads,
            requests: Requests::new(seed),
            drains: Drains::new(seed),
        })
    }

    /// Runs the network until it has recovered from its faults. Returns what the operator has added and these faults.
    pub(super) fn run(&mut self) -> Result<(Operator, Faults), String> {
        fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> String {
            move |why| format!("{what}: {why}")
        }
        let Self { net, rng, seed, conditions, lies, .. } = self;
        let startup = match self.flooding {
            Flooding::Tree => TREE_INSTALLATION_TIME,
            Flooding::Auto | Flooding::Controller => DISCOVERY_TIME,
        };
        net.run_for(startup).map_err(failed("discovery"))?;
        let operator = Operator::new(*seed, net).map_err(failed("operator"))?;
        self.segments.schedule_cuts(*seed, net);
        lies.schedule_moves(net);
        let mut senders = Senders {
            lies,
            members: &mut self.members,
            made_up_hosts: &mut self.made_up_hosts,
            reloads: &mut self.reloads,
            requests: &mut self.requests,
            drains: &mut self.drains,
        };
        let mut faults =
            run_with_faults(net, rng, conditions, &mut senders).map_err(failed("faults"))?;
        faults.have_silent_ends = self.engine_conditions.silent_end_odds > 0;
        net.run_for(RECOVERY_TIME).map_err(failed("recovery"))?;
        lies.correct(net).map_err(failed("recovery"))?;
        Operator::use_entry(net).map_err(failed("operator"))?;
        Ok((operator, faults))
    }

    /// Checks what must hold after the network has recovered.
    pub(super) fn check(&mut self, (operator, faults): &(Operator, Faults)) -> Result<(), String> {
        let Self { net, conditions, segments, lies, .. } = self;
        // A packet-in that a paused control link delays is flooded again if its port was not yet known to be a link.
        let limits = CopyLimits {
            deliveries: match (segments.exist(), faults.have_pauses) {
                (true, _) => SEGMENT_COPIES_MAX,
                (false, true) => 2,
                (false, false) => 1,
            },
            crossings: if segments.exist() { SEGMENT_COPIES_MAX } else { 1 },
        };
        // A switch that has refused an entry of the tree is left out of it for a minute.
        if self.flooding == Flooding::Tree && self.refusals.table_entries_max.is_none() {
            check_tree(net).map_err(|why| format!("broadcasts: {why}"))?;
        }
        check_broadcasts(net, limits, conditions).map_err(|why| format!("broadcasts: {why}"))?;
        self.requests.check(net, faults).map_err(|why| format!("requests: {why}"))?;
        check_connections(net, faults).map_err(|why| format!("connections: {why}"))?;
        operator.check_entry(net).map_err(|why| format!("operator: {why}"))?;
        check_views(net).map_err(|why| format!("after recovery: {why}"))?;
        check_pings(net).map_err(|why| {
            let entries = check_flow_entries(net).err().unwrap_or_default();
            format!("after recovery: {why}; {entries}; {}", metrics(net))
        })?;
        let answers_in_time = conditions.transport == ControlTransport::Ideal
            && !self.is_overloaded
            && !faults.have_slow_links
            && !conditions.apps.contains(&"limiter");
        let made_up_max = self.made_up_hosts.known_max();
        lies.check(net, answers_in_time, made_up_max).map_err(|why| format!("hosts: {why}"))?;
        self.made_up_hosts.check(net).map_err(|why| format!("hosts: {why}"))?;
        // Hosts at a segment share its ports, and switches that refuse flow entries get packets of the controller.
        let is_exact = !segments.exist() && !self.refusals.are_possible();
        self.members.check(net, conditions, is_exact).map_err(|why| format!("members: {why}"))?;
        // Switches that refuse flow entries keep those that they have.
        let is_exact = is_exact
            && self.flooding == Flooding::Controller
            && conditions.apps.contains(&"forwarding");
        self.drains.check(net, is_exact).map_err(|why| format!("drains: {why}"))?;
        check_idle_links(net).map_err(|why| format!("after recovery: {why}"))
    }
}

/// The configuration of the applications. What is random is from streams of its own, so that the other choices of a seed do not
/// depend on it.
fn app_config(seed: u64, flooding: Flooding, matching: Matching, start: Instant) -> Config {
    // In half of the runs, flow entries are verified every few seconds, whatever happens.
    let interval_s = Rng::new(seed.rotate_left(32)).below(10).saturating_sub(4);
    let verify_interval = Duration::from_secs(interval_s.into());
    // Groups that no host has joined are flooded.
    let has_snooping = Rng::new(seed.rotate_left(16)).below(2) == 0;
    let multicast = has_snooping.then(forwarding::multicast::Config::default);
    Config {
        forwarding: forwarding::Config {
            flooding,
            matching,
            verify_interval,
            multicast,
            ..forwarding::Config::default()
        },
        ..default_config(start)
    }
}

/// The default configuration, with a clock that does not depend on what other networks of this process do.
pub(super) fn default_config(start: Instant) -> Config {
    let clock = Some(WallClock { at: start, since_1970: Duration::ZERO });
    let topology = topology::Config { clock, ..topology::Config::default() };
    Config { topology, ..Config::default() }
}

/// Delays of control links are up to 25 ms.
pub(super) fn network_options(
    seed: u64,
    rng: &mut Rng,
    version: Version,
    conditions: &NetworkConditions,
) -> NetworkOptions {
    let control = |rng: &mut Rng| LinkImpairments {
        delay: Duration::from_micros(rng.below(20_000).into()),
        jitter: Duration::from_micros(rng.below(5_000).into()),
        ..LinkImpairments::default()
    };
    NetworkOptions {
        seed,
        switch: EmulatedSwitchConfig {
            versions: Versions::of(&[version]),
            n_buffers: if rng.below(2) == 0 { 0 } else { 64 },
            ..EmulatedSwitchConfig::default()
        },
        control_up: conditions.on_link(control(rng)),
        control_down: conditions.on_link(control(rng)),
        control_transport: conditions.transport,
        reconnect_delay: conditions.reconnect_delay,
        connect_spread: Duration::from_millis(200),
        frame_copies_max: Some(COPIES_MAX),
        ..NetworkOptions::default()
    }
}

pub(super) fn engine_options(
    seed: u64,
    conditions: &NetworkConditions,
    is_overloaded: bool,
) -> SimulatedEngineOptions {
    let mut engine = SimulatedEngineOptions { seed, ..SimulatedEngineOptions::default() };
    engine.workers = conditions.workers;
    engine.config.limits.backlog_bytes_max = conditions.backlog_bytes_max;
    engine.config.limits.queue_capacity = conditions.queue_capacity;
    if is_overloaded {
        engine.conditions = Conditions::overloaded();
    }
    engine
}

/// In one of four networks, sets limits that the network just does not exceed, or only for a while. Returns `true` if it does.
pub(super) fn set_small_limits(
    seed: u64,
    switches: usize,
    conditions: &NetworkConditions,
    engine: &mut SimulatedEngineOptions,
) -> bool {
    // From a stream of its own, so that the other choices of a seed do not depend on it.
    let mut rng = Rng::new(seed.rotate_left(48));
    if rng.below(4) > 0 {
        return false;
    }
    let limits = &mut engine.config.limits;
    (limits.switches_max, limits.handshakes_max) = (switches, switches);
    // No switch has more than sixteen, and each may connect again before the loss of its connection is noticed.
    limits.ports_max = switches * 32;
    // Packets that the controller forwards one by one may be dropped.
    if conditions.has_limited_backlogs() {
        limits.backlog_total_bytes_max = (8 << 10) << rng.below(6);
    }
    engine.config.session.multipart_total_bytes_max = 256 << 10;
    true
}
