//! Which switches are asked for their flow entries at the same time.

use std::time::{Duration, Instant};

use sluice_apps::forwarding::{Config, Flooding, Forwarding};
use sluice_openflow::{DatapathId, Encoder, MessageType, SwitchFeatures, Version, split_message};
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

/// Switches that answer nothing.
struct SilentSwitches {
    app: Forwarding,
    network: Network,
    now: Instant,
}

impl SilentSwitches {
    /// Calls the application about switch `n`. Returns whether it sent a multipart request.
    fn is_queried(&mut self, n: u32, call: impl FnOnce(&mut Forwarding, &mut Ctx<'_>)) -> bool {
        let (mut tx, mut urgent, mut xid) = (Vec::new(), Vec::new(), 1);
        let encoder = Encoder::new(&mut tx, Version::V1_3, &mut xid);
        let (index, id) = (SwitchIndex(n), DatapathId(n.into()));
        let network = &mut self.network;
        call(&mut self.app, &mut Ctx::new(self.now, index, id, encoder, &mut urgent, network));
        let mut rest = &*tx;
        while let Ok(Some((msg, after))) = split_message(rest) {
            if msg.kind() == MessageType::MULTIPART_REQUEST {
                return true;
            }
            rest = after;
        }
        false
    }
}

/// They used to keep the entries of all others from being read for as long as they stayed connected.
#[test]
fn switches_that_do_not_answer_delay_the_queries_of_others_only_for_a_while() {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let now = Instant::now();
    let cfg = Config { flooding: Flooding::Controller, ..Config::default() };
    let (app, network) = (Forwarding::new(&cfg), Network::new(0));
    let mut switches = SilentSwitches { app, network, now };
    let features = SwitchFeatures::default();
    let queried = (0..9)
        .filter(|&n| switches.is_queried(n, |app, ctx| app.on_switch_connected(&features, ctx)));
    assert_eq!(queried.collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    switches.now += Duration::from_secs(1);
    assert!(!switches.is_queried(8, Forwarding::on_tick));
    switches.now += Duration::from_secs(1);
    assert!(switches.is_queried(8, Forwarding::on_tick));
}
