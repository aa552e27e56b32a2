//! A configuration that is changed while the network runs.

use super::*;

/// In one of so many networks.
const RELOADS_ODDS: u32 = 3;

/// Two configurations that follow each other in turn.
#[derive(Debug)]
pub(super) struct Reloads {
    configs: [Config; 2],
    are_planned: bool,
    count: usize,
}

impl Reloads {
    /// The network begins with `config`.
    pub(super) fn new(seed: u64, config: &Config) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(29) ^ 0x5196);
        let are_planned = rng.below(RELOADS_ODDS) == 0;
        let mut other = config.clone();
        let forwarding = &mut other.forwarding;
        forwarding.both_directions = rng.below(2) == 0;
        forwarding.idle_timeout_s = 5 + u16::try_from(rng.below(60)).unwrap();
        forwarding.verify_interval = Duration::from_secs(rng.below(10).into());
        forwarding.multicast = match forwarding.multicast {
            Some(_) => None,
            None => Some(forwarding::multicast::Config::default()),
        };
        other.topology.probe_interval = Duration::from_millis((500 + rng.below(1500)).into());
        Self { configs: [other, config.clone()], are_planned, count: 0 }
    }

    /// Applies the next configuration. After an even number of calls it is the first one again.
    pub(super) fn apply(&mut self, net: &mut ChainSimulation) {
        if !self.are_planned {
            return;
        }
        let config = self.configs.iter().cycle().nth(self.count % 2).unwrap().clone();
        self.count += 1;
        net.controller_mut()
            .apply(|_| {}, move |chain: &mut Chain| chain.configure(&config.by_name()));
    }
}
