//! Section 5.1.8: how soon the controller reacts to a change of the topology.

use std::time::{Duration, Instant};

use sluice_emu::live::RecordedMessage;
use sluice_io::clock;

use super::northbound::{DiscoveredTopology, NorthboundClient, TopologyPoller};
use super::trial::{Trial, milliseconds};
use crate::measure::Measured;
use crate::network::TestNetwork;
use crate::network::messages;

/// Interval at which the northbound interface is asked for the topology.
pub(crate) const NORTHBOUND_INTERVAL: Duration = Duration::from_millis(50);

/// Time between the end of the discovery and the change.
const PAUSE: Duration = Duration::from_secs(1);

/// How a controller reacted to a link that went down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reaction {
    /// From the notification to the first discovery message after it; `None` if there was none.
    pub(super) rediscovery: Option<Duration>,
    /// From the notification until the northbound interface did not show the link any more.
    pub(super) northbound: Option<Duration>,
}

/// When the first port was reported down, and when the first discovery message came after that.
fn rediscovery(messages: &[RecordedMessage]) -> Option<(Instant, Option<Instant>)> {
    let reported = messages.iter().find(|message| messages::is_port_status(message))?.at;
    let after = messages.iter().filter(|message| message.at >= reported);
    let first = after.filter(|it| messages::is_discovery_message(it)).map(|it| it.at).min();
    Some((reported, first))
}

/// Cuts the first link, and waits for the reaction of the controller, for `timeout` at most.
pub(super) fn cut_first_link(
    network: &mut TestNetwork<'_>,
    northbound: Option<&NorthboundClient>,
    timeout: Duration,
) -> Result<Reaction, String> {
    if network.topology().links.is_empty() {
        return Err("the topology has no links".to_owned());
    }
    let before = northbound.map(NorthboundClient::topology).transpose()?;
    let poller = northbound.map(|it| TopologyPoller::start(it, NORTHBOUND_INTERVAL)).transpose()?;
    network.clear();
    network.cut_link(0)?;
    let deadline = clock::now() + timeout;
    let mut gone_at: Option<Instant> = None;
    network.run(deadline, |network| {
        let answers = poller.iter().flat_map(|poller| std::iter::from_fn(|| poller.next_answer()));
        for (at, answer) in answers {
            if gone_at.is_none() && is_gone(before, answer.ok()) {
                gone_at = Some(at);
            }
        }
        let is_rediscovered = matches!(rediscovery(&network.messages), Some((_, Some(_))));
        is_rediscovered && (poller.is_none() || gone_at.is_some())
    })?;
    let (reported, first) = rediscovery(&network.messages).ok_or_else(|| {
        "no switch has notified the controller of its port: it does not want PORT_STATUS".to_owned()
    })?;
    let since = |at: Instant| at.saturating_duration_since(reported);
    Ok(Reaction { rediscovery: first.map(since), northbound: gone_at.map(since) })
}

/// Whether both directions of a link have left the topology.
fn is_gone(before: Option<DiscoveredTopology>, now: Option<DiscoveredTopology>) -> bool {
    before.zip(now).is_some_and(|(before, now)| now.links + 2 <= before.links)
}

/// Section 5.1.8: network topology change detection time.
pub(super) fn change_detection_time(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let northbound =
        trial.subject.row.northbound.as_ref().map(|_| trial.northbound()).transpose()?;
    let mut network = trial.connect()?;
    network.wait_for_discovery()?;
    if !network.messages.iter().any(messages::is_discovery_message) {
        return Err(
            "the controller discovers no topology: it sends no LLDP or BDDP frames".to_owned()
        );
    }
    network.run_for(PAUSE)?;
    let reaction = cut_first_link(&mut network, northbound.as_ref(), trial.time())?;
    let mut measured = Measured::default();
    set_or_bound(&mut measured, "detection_ms", reaction.rediscovery, trial.time());
    if northbound.is_some() {
        set_or_bound(&mut measured, "northbound_ms", reaction.northbound, trial.time());
    }
    Ok(measured)
}

/// Sets a time in milliseconds, or the time for which was waited as its lower bound.
pub(super) fn set_or_bound(
    measured: &mut Measured,
    name: &str,
    time: Option<Duration>,
    waited: Duration,
) {
    measured.set(name, milliseconds(time.unwrap_or(waited)));
    if time.is_none() {
        measured.lower_bounds.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use sluice_emu::live::MessageSender;
    use sluice_openflow::{Message, Port, PortReason, PortStatus, Version};

    use super::*;
    use crate::network::messages::tests::{frame, packet_out};

    #[test]
    fn the_first_discovery_message_after_the_notification_counts() {
        let start = clock::now();
        let ms = |n| start + Duration::from_millis(n);
        let status = PortStatus { reason: PortReason::MODIFY, port: Port::default() };
        let bytes = Message::PortStatus(status).to_vec(Version::V1_3, 1).unwrap();
        let port_status =
            RecordedMessage { at: ms(10), switch: 0, sender: MessageSender::Switch, bytes };
        let lldp = |at| packet_out(at, 1, &frame(0x88cc));
        let messages = [lldp(ms(1)), port_status, lldp(ms(14)), lldp(ms(20))];
        assert_eq!(rediscovery(&messages), Some((ms(10), Some(ms(14)))));
        assert_eq!(rediscovery(&messages[..2]), Some((ms(10), None)));
        assert_eq!(rediscovery(&messages[..1]), None);
    }

    #[test]
    fn a_link_is_gone_when_both_directions_are() {
        let topology = |links| Some(DiscoveredTopology { switches: 6, links });
        assert!(!is_gone(topology(16), topology(15)));
        assert!(is_gone(topology(16), topology(14)));
        assert!(!is_gone(topology(16), None));
    }

    #[test]
    fn what_did_not_happen_is_a_lower_bound() {
        let mut measured = Measured::default();
        set_or_bound(&mut measured, "a", Some(Duration::from_millis(3)), Duration::from_secs(1));
        set_or_bound(&mut measured, "b", None, Duration::from_secs(1));
        assert_eq!(measured.figures.into_values().collect::<Vec<_>>(), [3.0, 1000.0]);
        assert_eq!(measured.lower_bounds, ["b"]);
    }
}
