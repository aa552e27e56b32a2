//! Unmanaged segments.

use sluice_emu::link::LossRatio;
use sluice_emu::net::HubKind;

use super::*;

/// Three broadcast probes are missed, the port that is left has no neighbor for a while, and the hosts are asked there.
const SPLIT_TIME: Duration = Duration::from_secs(17);

/// The cable between a hub and the port that forwards for it carries nothing any more, and no port goes down: as when the hub
/// consists of two that are separated. Nothing but the ARP replies to the controller shows where the host behind it is.
#[test]
fn a_silent_host_behind_a_separated_hub_is_found_at_the_other_port() {
    for version in [Version::V1_0, Version::V1_3] {
        let mut network = ModelNetwork::with_flooding("linear,2", version, Flooding::Controller);
        let (now, data_plane) = network.simulation.data_plane_mut();
        let ports = [0, 1].map(|switch| data_plane.free_port(switch).unwrap());
        let link = LinkImpairments::default();
        let cables = data_plane.add_hub(now, HubKind::Bridge, &ports, &[1], link).unwrap();
        network.run_for(STARTUP_TIME);
        assert_eq!(network.lost_pings(), []);
        let dead = LinkImpairments { loss: LossRatio::from_ppm(1_000_000), ..link };
        network.apply(NetworkChange::SetLinkImpairments(cables[0], dead));
        network.run_for(SPLIT_TIME);
        assert_eq!(network.metrics()["hosts_moved"], 1, "{version}");
        let summary =
            network.simulation.ping([(0, 1)], IpFamily::V4, Duration::from_secs(1)).unwrap();
        assert_eq!(summary.lost_pairs, [], "{version}");
    }
}
