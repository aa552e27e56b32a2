//! How long a probe may take to reach a host because of the control connection of its switch. Other workers know it only for
//! switches where it is long.

use std::time::{Duration, Instant};

use sluice_openflow::DatapathId;
use sluice_sdk::view::{AppRecord, NetworkView};
use sluice_sdk::{Ctx, Network};

/// The shortest round-trip time that is published.
const PUBLISHED_MIN: Duration = Duration::from_millis(32);

/// Assumed of a switch that takes nothing.
const WITHOUT_ROOM: Duration = Duration::from_secs(1);

/// The round-trip time to a switch, rounded up so that it changes rarely; none if it is shorter than [`PUBLISHED_MIN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ControlDelay(Duration);

impl AppRecord for ControlDelay {
    type Key = DatapathId;
}

/// The round-trip time to a switch of any worker, zero if it is short.
pub(super) fn of(switch: DatapathId, view: &NetworkView) -> Duration {
    view.record::<ControlDelay>(switch).map_or(Duration::ZERO, |&ControlDelay(delay)| delay)
}

/// Publishes the round-trip time to the switch of `ctx` if it has changed by much.
pub(super) fn update(ctx: &mut Ctx<'_>) {
    let rtt = if ctx.has_room() { ctx.rtt().unwrap_or_default() } else { WITHOUT_ROOM };
    let (switch, published) = (ctx.datapath_id, of(ctx.datapath_id, ctx.view()));
    if rtt > published && rtt >= PUBLISHED_MIN {
        let mut delay = PUBLISHED_MIN;
        while delay < rtt {
            delay *= 2;
        }
        ctx.network.publish_record(ctx.now, switch, Some(ControlDelay(delay)));
    } else if rtt < published / 4 {
        forget(switch, ctx.now, ctx.network);
    }
}

/// Forgets the round-trip time to a switch.
pub(super) fn forget(switch: DatapathId, now: Instant, network: &mut Network) {
    network.publish_record::<ControlDelay>(now, switch, None);
}
