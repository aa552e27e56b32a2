//! The applications `learning` and `hub` in networks without loops. Control connections break and stall, links fail and come back,
//! and file descriptors are missing for a while. Afterwards all hosts reach each other.

use super::*;

/// As many as the networks of the default chain, divided by this.
const RUNS_DIVISOR: u64 = 4;

const CHAINS: [&[&str]; 2] = [&["learning"], &["hub"]];

const SHAPES: [&str; 3] = ["linear,2", "linear,4", "tree,2,2"];

/// Time in which faults occur.
const FAULTS_MS: u32 = 5000;

/// How often a ping is repeated: over a thin control link with a small backlog, packets that are flooded may be dropped.
const ATTEMPTS_MAX: usize = 8;

#[test]
fn learning_and_hub_connect_all_hosts_of_networks_without_loops_after_faults() {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let runs: u64 = number("SLUICE_SIM_RUNS").unwrap_or(RUNS);
    let first: u64 = number("SLUICE_SIM_SEED").unwrap_or(1);
    for seed in first..first + runs.div_ceil(RUNS_DIVISOR) {
        run(seed).unwrap_or_else(|why| panic!("SLUICE_SIM_RUNS=1 SLUICE_SIM_SEED={seed}: {why}"));
    }
}

/// Runs the network of a seed.
fn run(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed.wrapping_mul(5) ^ 0xc4a1);
    let names = CHAINS.get(pick(&mut rng, CHAINS.len())).unwrap();
    let shape = SHAPES.get(pick(&mut rng, SHAPES.len())).unwrap();
    let mut topology = Topology::from_text(shape).map_err(|e| e.to_string())?;
    topology.set_impairments(LinkImpairments { delay: LINK_DELAY, ..LinkImpairments::default() });
    let conditions = NetworkConditions::new(seed);
    let versions = [Version::V1_0, Version::V1_3, Version::V1_5];
    let version = *versions.get(pick(&mut rng, versions.len())).unwrap();
    let options = scenario::network_options(seed, &mut rng, version, &conditions);
    let is_overloaded = rng.below(4) == 0;
    let mut engine = scenario::engine_options(seed, &conditions, is_overloaded);
    scenario::set_small_limits(seed, topology.switches.len(), &conditions, &mut engine);
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    let config = default_config(start);
    let apps = |_| -> Chain { chain(&names, &config).unwrap() };
    let controller = SimulatedEngine::new(&engine, start, apps);
    let net = NetworkSimulation::new(topology, &options, start, controller);
    let mut net = net.map_err(|e| e.to_string())?;
    let context = format!("{names:?}, {shape} in {version}, {conditions:?}");
    let result = run_with_breaks(&mut net, &mut rng).map_err(|e| e.to_string());
    let faults = result.map_err(|why| format!("{context}: {why}"))?;
    check_all_pings(&mut net).map_err(|why| format!("{context}: {why}"))?;
    check_connections(&net, &faults).map_err(|why| format!("{context}: {why}"))?;
    check_views(&net).map_err(|why| format!("{context}: {why}"))
}

/// Lets faults occur while hosts send, and waits until the network has recovered.
fn run_with_breaks(
    net: &mut ChainSimulation,
    rng: &mut Rng,
) -> Result<Faults, sluice_emu::net::NetworkError> {
    net.run_for(DISCOVERY_TIME)?;
    let topology = net.data_plane().topology().clone();
    let (n_links, n_switches) = (topology.links.len(), topology.switches.len());
    let (start, mut faults) = (net.now(), Faults::default());
    for _ in 0..=rng.below(5) {
        let at = start + Duration::from_millis(rng.below(FAULTS_MS).into());
        let later = at + Duration::from_millis(rng.below(3000).into());
        let switch = pick(rng, n_switches);
        match rng.below(4) {
            0 => {
                let link = pick(rng, n_links);
                net.schedule(at, NetworkChange::CutLink(link));
                net.schedule(later, NetworkChange::RestoreLink(link));
            }
            1 => {
                net.schedule(at, NetworkChange::PauseControlLink(switch));
                net.schedule(later, NetworkChange::ResumeControlLink(switch));
                faults.have_pauses = true;
            }
            2 => {
                net.controller().fail_for_descriptors(rng.below(4));
                faults.have_missing_descriptors = true;
            }
            _ => {
                net.schedule(at, NetworkChange::BreakControlConnection(switch));
                faults.have_breaks = true;
            }
        }
    }
    let pairs: Vec<_> = PingSummary::all_pairs(&topology).filter(|_| rng.below(3) == 0).collect();
    net.ping(pairs, IpFamily::V4, Duration::from_millis(FAULTS_MS.into()))?;
    net.run_for(RECOVERY_TIME)?;
    Ok(faults)
}

/// Checks that each host reaches each other one.
fn check_all_pings(net: &mut ChainSimulation) -> Result<(), String> {
    let topology = net.data_plane().topology().clone();
    for family in [IpFamily::V4, IpFamily::V6] {
        let mut missing: Vec<_> = PingSummary::all_pairs(&topology).collect();
        for _ in 0..ATTEMPTS_MAX {
            let pings = net.ping(missing, family, Duration::from_secs(5));
            missing = pings.map_err(|e| e.to_string())?.lost_pairs;
        }
        if !missing.is_empty() {
            return Err(format!("{family:?}: lost {missing:?}; {}", metrics(net)));
        }
    }
    Ok(())
}
