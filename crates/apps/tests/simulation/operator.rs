//! Flow entries that an operator adds and deletes.

use super::*;

/// An operator who adds a flow entry to a switch and deletes all entries of others.
#[derive(Debug)]
pub(super) struct Operator {
    /// The switch that has the entry, unless it has refused it or is emptied.
    switch: Option<usize>,
}

impl Operator {
    /// A host that does not exist, to which the entry sends.
    const UNKNOWN: MacAddr = MacAddr([2, 0, 0, 0, 0x12, 0x34]);
    const COOKIE: u64 = 0x1234;

    /// Adds the entry, to a port with a link, and schedules deletions.
    pub(super) fn new(
        seed: u64,
        net: &mut ChainSimulation,
    ) -> Result<Self, sluice_emu::net::NetworkError> {
        let mut rng = Rng::new(seed.wrapping_mul(5) ^ 0x0b5e);
        let topology = net.data_plane().topology().clone();
        let link = topology.links.get(pick(&mut rng, topology.links.len())).unwrap();
        let entry = FlowMod {
            cookie: Self::COOKIE,
            priority: 1234,
            matching: [Field::eth_dst(Self::UNKNOWN)].into(),
            instructions: vec![Instruction::apply([Action::output(link.a.port)])],
            ..FlowMod::default()
        };
        let (start, switch) = (net.now(), link.a.switch);
        let (now, data_plane) = net.data_plane_mut();
        // A small table may be full already.
        let is_accepted = data_plane.change_tables(now, switch, entry)?;
        let mut is_emptied = false;
        for _ in 0..rng.below(3) {
            let emptied = pick(&mut rng, topology.switches.len());
            let at = start + Duration::from_millis(rng.below(FAULTS_MS + 20_000).into());
            net.schedule(at, NetworkChange::EmptyTables(emptied));
            is_emptied |= emptied == switch;
        }
        Ok(Self { switch: (is_accepted && !is_emptied).then_some(switch) })
    }

    /// Has all hosts send to the unknown host.
    pub(super) fn use_entry(
        net: &mut ChainSimulation,
    ) -> Result<(), sluice_emu::net::NetworkError> {
        let hosts = net.data_plane().topology().hosts.clone();
        for (n, host) in hosts.iter().enumerate() {
            let addresses = [Self::UNKNOWN.0, host.mac.0].concat();
            let frame = [&addresses[..], &0x1234_u16.to_be_bytes(), &[0; 46]].concat();
            let (now, data_plane) = net.data_plane_mut();
            data_plane.send_frame(now, n, frame)?;
        }
        net.run_for(Duration::from_secs(5))
    }

    /// Checks that the controller has not deleted the entry.
    pub(super) fn check_entry(&self, net: &ChainSimulation) -> Result<(), String> {
        let Some(switch) = self.switch else { return Ok(()) };
        let mut entries =
            net.data_plane().switch(switch).into_iter().flat_map(|s| s.flow_entries(0));
        if entries.any(|entry| entry.cookie == Self::COOKIE) {
            return Ok(());
        }
        Err(format!("the entry of the operator is not at switch {switch} any more"))
    }
}
