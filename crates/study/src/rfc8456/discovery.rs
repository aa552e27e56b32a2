//! Sections 5.1.1 and 5.2.2: how long the discovery of a topology takes, and how large a topology may be.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_emu::live::RecordedMessage;
use sluice_emu::topology::{PortRef, Topology};
use sluice_io::clock;

use super::northbound::{DiscoveredTopology, NorthboundClient, TopologyPoller};
use super::trial::{Trial, milliseconds};
use crate::measure::Measured;
use crate::network::TestNetwork;
use crate::network::messages;

/// Interval between two requests for the topology.
const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// Equal answers after which the discovery has ended.
const EQUAL_ANSWERS: u32 = 3;

/// Answers that are errors, one after the other, after which the trial has failed.
const ERRORS_MAX: u32 = 3;

/// Longest discovery.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(120);

/// Leaves of the first network of section 5.2.2, which has two spines.
const FIRST_LEAVES: usize = 14;

/// Leaves of the largest network of section 5.2.2.
const LEAVES_MAX: usize = 1022;

/// Spines of these networks.
const SPINES: usize = 2;

/// Time after which section 5.2.2 begins no further network.
const SIZE_TIMEOUT: Duration = Duration::from_secs(300);

/// Time between two networks of section 5.2.2.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the controller is asked whether it still lists the switches of a network that has gone, every [`POLL_INTERVAL`].
const FORGET_ATTEMPTS: u32 = 10;

/// What an answer of the controller means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The discovery goes on.
    Incomplete,
    /// The discovered topology is the deployed one.
    Matches,
    /// It is another one, and the same for the third time.
    Differs,
}

/// Compares what the controller has discovered with the deployed topology.
#[derive(Debug, Clone, Copy)]
struct TopologyComparison {
    deployed: DiscoveredTopology,
    /// What the controller listed before; some never forget switches that have left.
    before: DiscoveredTopology,
    last: Option<DiscoveredTopology>,
    equal: u32,
}

impl TopologyComparison {
    fn new(topology: &Topology, before: DiscoveredTopology) -> Self {
        let deployed = DiscoveredTopology {
            switches: topology.switches.len(),
            links: 2 * topology.links.len(),
        };
        Self { deployed, before, last: None, equal: 0 }
    }

    fn add(&mut self, answer: DiscoveredTopology) -> Verdict {
        let is_switches = answer.switches == self.deployed.switches
            || answer.switches == self.deployed.switches + self.before.switches;
        if is_switches && answer.links == self.deployed.links {
            return Verdict::Matches;
        }
        self.equal = if self.last == Some(answer) { self.equal + 1 } else { 1 };
        self.last = Some(answer);
        if self.equal >= EQUAL_ANSWERS { Verdict::Differs } else { Verdict::Incomplete }
    }

    /// What was discovered, as part of a sentence.
    fn describe(&self) -> String {
        let DiscoveredTopology { switches, links } =
            self.last.unwrap_or(DiscoveredTopology { switches: 0, links: 0 });
        format!(
            "{switches} of {} switches and {links} of {} links (each direction apart)",
            self.deployed.switches, self.deployed.links
        )
    }
}

/// How a discovery ended.
enum Discovery {
    /// The answer of this time had the deployed topology.
    Complete(Instant),
    /// Another topology was discovered, as the sentence says.
    Incomplete(String),
}

/// Waits until the northbound interface shows the deployed topology, or the same other one three times.
fn discover(
    network: &mut TestNetwork<'_>,
    northbound: &NorthboundClient,
    before: DiscoveredTopology,
    observe: &mut dyn FnMut(),
) -> Result<Discovery, String> {
    let mut comparison = TopologyComparison::new(network.topology(), before);
    let poller = TopologyPoller::start(northbound, POLL_INTERVAL)?;
    let deadline = clock::now() + DISCOVERY_TIMEOUT;
    let (mut errors, mut result) = (0, None);
    network.run(deadline, |network| {
        while let Some((at, answer)) = poller.next_answer() {
            observe();
            // Until they are connected, the answers say nothing about the discovery.
            let is_connected = network.connected_switches() == network.topology().switches.len();
            match answer.map(|answer| comparison.add(answer)) {
                Ok(Verdict::Matches) => result = Some(Ok(Discovery::Complete(at))),
                Ok(Verdict::Differs) if is_connected => {
                    result = Some(Ok(Discovery::Incomplete(comparison.describe())));
                }
                Ok(_) => errors = 0,
                Err(why) => {
                    errors += 1;
                    if errors >= ERRORS_MAX {
                        result = Some(Err(why));
                    }
                }
            }
        }
        result.is_some()
    })?;
    result.unwrap_or_else(|| Ok(Discovery::Incomplete(comparison.describe())))
}

/// Times of the discovery messages of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DiscoveryTimes {
    /// From the first discovery message of the controller to the last message of a switch that reported a new link.
    new_links: Duration,
    /// To the last message of a switch that reported any link.
    all: Duration,
    /// Discovery messages of the controller.
    sent: usize,
}

impl DiscoveryTimes {
    /// Of the messages until `end`. `None` without discovery messages.
    fn of(messages: &[RecordedMessage], end: Instant) -> Option<Self> {
        let until_end = || messages.iter().filter(|message| message.at <= end);
        let sent = || until_end().filter(|message| messages::is_discovery_message(message));
        let first = sent().map(|message| message.at).min()?;
        let mut reported: BTreeMap<PortRef, Instant> = BTreeMap::new();
        let mut last = first;
        for message in until_end() {
            if let Some(port) = messages::reported_port(message) {
                reported.entry(port).or_insert(message.at);
                last = last.max(message.at);
            }
        }
        let last_new = reported.into_values().max()?;
        Some(Self {
            new_links: last_new.saturating_duration_since(first),
            all: last.saturating_duration_since(first),
            sent: sent().count(),
        })
    }
}

/// Section 5.1.1: network topology discovery time.
pub(super) fn topology_discovery_time(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let northbound = trial.northbound()?;
    let before = northbound.topology()?;
    let mut network = trial.connect()?;
    let controller = &mut *trial.subject.controller;
    let end = match discover(&mut network, &northbound, before, &mut || controller.observe())? {
        Discovery::Complete(end) => end,
        Discovery::Incomplete(what) => {
            return Err(format!("the discovered topology differs from the deployed one: {what}"));
        }
    };
    let times = DiscoveryTimes::of(&network.messages, end).ok_or_else(|| {
        "the controller knows the topology, but no LLDP or BDDP frame was sent and reported"
            .to_owned()
    })?;
    let mut measured = Measured::default();
    measured.set("discovery_ms", milliseconds(times.new_links));
    measured.set("last_message_ms", milliseconds(times.all));
    #[expect(clippy::cast_precision_loss, reason = "a number of messages")]
    measured.set("messages", times.sent as f64);
    Ok(measured)
}

/// Section 5.2.2: network discovery size.
pub(super) fn network_discovery_size(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let northbound = trial.northbound()?;
    let before = northbound.topology()?;
    let deadline = clock::now() + SIZE_TIMEOUT;
    let mut search = SizeSearch::new(FIRST_LEAVES, LEAVES_MAX);
    let mut why = String::new();
    while let Some(leaves) = search.next().filter(|_| clock::now() < deadline) {
        let topology = Topology::from_text(&format!("leafspine,{SPINES},{leaves},0"))
            .map_err(|error| error.to_string())?;
        let mut network = trial.connect_to(trial.subject.target, topology)?;
        let controller = &mut *trial.subject.controller;
        let discovery = discover(&mut network, &northbound, before, &mut || controller.observe());
        drop(network);
        match discovery {
            Ok(Discovery::Complete(_)) => search.add(leaves, SearchResult::Discovered),
            Ok(Discovery::Incomplete(what)) => {
                why = what;
                search.add(leaves, SearchResult::Failed);
            }
            Err(error) => {
                trial.check_interrupted()?;
                why = error;
                search.add(leaves, SearchResult::Failed);
            }
        }
        trial.subject.controller.observe_for(PAUSE, trial.is_interrupted);
        search.look_at_memory(
            before,
            || northbound.topology(),
            || trial.subject.controller.observe_for(POLL_INTERVAL, trial.is_interrupted),
        );
        trial.check_interrupted()?;
    }
    let leaves = search.discovered.ok_or_else(|| {
        format!("not even {} switches were discovered: {why}", FIRST_LEAVES + SPINES)
    })?;
    let mut measured = Measured::default();
    #[expect(clippy::cast_precision_loss, reason = "a number of switches")]
    measured.set("nodes", (leaves + SPINES) as f64);
    let is_unfinished = search.next().is_some();
    if is_unfinished {
        measured.warnings.push(format!(
            "the search ended after {} s before the limit was known to within a switch",
            SIZE_TIMEOUT.as_secs()
        ));
    }
    if search.is_ended_by_memory() {
        measured.warnings.push(format!(
            "the controller still listed switches {} s after they had disconnected: after the network of {} switches that failed, no smaller one could be tested",
            (POLL_INTERVAL * FORGET_ATTEMPTS).as_secs(),
            search.failed.unwrap_or_default() + SPINES
        ));
    }
    if search.failed.is_none() || is_unfinished || search.is_ended_by_memory() {
        measured.lower_bounds.push("nodes".to_owned());
    }
    Ok(measured)
}

/// Whether a controller goes on listing switches or links that have gone: then a smaller network than the last one is never listed as it is.
fn remembers(
    before: DiscoveredTopology,
    mut ask: impl FnMut() -> Result<DiscoveredTopology, String>,
    mut pause: impl FnMut(),
) -> bool {
    let mut is_listed = false;
    for _ in 0..FORGET_ATTEMPTS {
        // An answer that is an error says nothing: the next network shows whether there are others.
        is_listed = ask().is_ok_and(|it| it.switches > before.switches || it.links > before.links);
        if !is_listed {
            break;
        }
        pause();
    }
    is_listed
}

/// Whether the network of a size was discovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchResult {
    Discovered,
    Failed,
}

/// Looks for the largest size: twice as large until one fails, then between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SizeSearch {
    first: usize,
    max: usize,
    discovered: Option<usize>,
    failed: Option<usize>,
    /// Whether the controller, when it was last looked at, went on listing switches that had gone.
    is_remembered: bool,
}

impl SizeSearch {
    fn new(first: usize, max: usize) -> Self {
        Self { first, max, discovered: None, failed: None, is_remembered: false }
    }

    /// Whether nothing more can be found out since the controller remembers the switches of a network that was not discovered.
    fn is_ended_by_memory(&self) -> bool {
        self.is_remembered && self.failed.is_some_and(|failed| self.is_open_below(failed))
    }

    /// Looks whether the controller goes on listing the switches of the last network. One that did so after a smaller network is looked at again only
    /// when the search would end for it: it may have forgotten them since, or just be slow.
    fn look_at_memory(
        &mut self,
        before: DiscoveredTopology,
        ask: impl FnMut() -> Result<DiscoveredTopology, String>,
        pause: impl FnMut(),
    ) {
        if !self.is_remembered || self.is_ended_by_memory() {
            self.is_remembered = remembers(before, ask, pause);
        }
    }

    fn is_open_below(&self, failed: usize) -> bool {
        self.discovered.is_some_and(|size| failed > size + 1)
    }

    /// The next size; `None` if the largest is known, or cannot be found out.
    fn next(&self) -> Option<usize> {
        if self.is_ended_by_memory() {
            return None;
        }
        match (self.discovered, self.failed) {
            (None, None) => Some(self.first),
            (None, Some(_)) => None,
            (Some(size), None) => Some((2 * size).min(self.max)).filter(|next| *next > size),
            (Some(size), Some(failed)) => {
                Some(usize::midpoint(size, failed)).filter(|next| *next > size)
            }
        }
    }

    fn add(&mut self, size: usize, result: SearchResult) {
        match result {
            SearchResult::Discovered => self.discovered = Some(size),
            SearchResult::Failed => self.failed = Some(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::messages::tests::{frame, packet_in_of, packet_out};

    const NONE: DiscoveredTopology = DiscoveredTopology { switches: 0, links: 0 };

    fn answer(switches: usize, links: usize) -> DiscoveredTopology {
        DiscoveredTopology { switches, links }
    }

    #[test]
    fn a_trial_ends_with_a_match_or_three_equal_answers() {
        let topology = Topology::from_text("leafspine,2,4,2").unwrap();
        let mut comparison = TopologyComparison::new(&topology, NONE);
        assert_eq!(comparison.add(answer(6, 10)), Verdict::Incomplete);
        assert_eq!(comparison.add(answer(6, 16)), Verdict::Matches);

        let mut comparison = TopologyComparison::new(&topology, NONE);
        for _ in 0..2 {
            assert_eq!(comparison.add(answer(6, 10)), Verdict::Incomplete);
        }
        assert_eq!(comparison.add(answer(6, 12)), Verdict::Incomplete);
        assert_eq!(comparison.add(answer(6, 12)), Verdict::Incomplete);
        assert_eq!(comparison.add(answer(6, 12)), Verdict::Differs);
        assert_eq!(
            comparison.describe(),
            "6 of 6 switches and 12 of 16 links (each direction apart)"
        );
    }

    #[test]
    fn switches_that_were_listed_before_may_still_be() {
        let topology = Topology::from_text("linear,3").unwrap();
        for switches in [3, 4] {
            let mut comparison = TopologyComparison::new(&topology, answer(1, 0));
            assert_eq!(comparison.add(answer(switches, 4)), Verdict::Matches);
        }
        let mut comparison = TopologyComparison::new(&topology, answer(1, 0));
        assert_eq!(comparison.add(answer(5, 4)), Verdict::Incomplete);
    }

    #[test]
    fn repeated_reports_of_a_link_do_not_extend_its_discovery() {
        let start = clock::now();
        let ms = |n| start + Duration::from_millis(n);
        let lldp = frame(0x88cc);
        let messages = [
            packet_out(ms(10), 0, &frame(0x0800)),
            packet_out(ms(20), 0, &lldp),
            packet_in_of(ms(25), 1, 1, &lldp),
            packet_out(ms(30), 1, &lldp),
            packet_in_of(ms(37), 0, 1, &lldp),
            // The next round.
            packet_out(ms(1020), 0, &lldp),
            packet_in_of(ms(1025), 1, 1, &lldp),
            // After the end.
            packet_in_of(ms(4000), 3, 1, &lldp),
        ];
        let times = DiscoveryTimes::of(&messages, ms(3000)).unwrap();
        assert_eq!(times.new_links, Duration::from_millis(17));
        assert_eq!(times.all, Duration::from_millis(1005));
        assert_eq!(times.sent, 3);
        assert_eq!(DiscoveryTimes::of(&messages[..2], ms(3000)), None);
    }

    #[test]
    fn a_controller_that_remembers_switches_ends_the_search_at_the_first_failure() {
        let mut search = SizeSearch::new(14, 1000);
        search.is_remembered = true;
        for size in [14, 28, 56] {
            assert_eq!(search.next(), Some(size));
            assert!(!search.is_ended_by_memory());
            search.add(size, SearchResult::Discovered);
        }
        assert_eq!(search.next(), Some(112));
        search.add(112, SearchResult::Failed);
        assert_eq!((search.next(), search.discovered), (None, Some(56)));
        assert!(search.is_ended_by_memory());
        // One that forgets them goes on between.
        search.is_remembered = false;
        assert_eq!(search.next(), Some(84));
        // Nothing is between them.
        let known = SizeSearch { failed: Some(57), is_remembered: true, ..search };
        assert_eq!((known.next(), known.is_ended_by_memory()), (None, false));
    }

    #[test]
    fn a_controller_that_forgets_switches_later_does_not_end_the_search() {
        let before = answer(1, 0);
        let look = |search: &mut SizeSearch, listed: DiscoveredTopology| {
            let mut asked = 0;
            let ask = || {
                asked += 1;
                Ok(listed)
            };
            search.look_at_memory(before, ask, || ());
            asked
        };
        let mut search = SizeSearch::new(14, 1000);
        search.add(14, SearchResult::Discovered);
        assert_eq!(look(&mut search, answer(17, 56)), FORGET_ATTEMPTS);
        // Larger networks can be told from those before.
        search.add(28, SearchResult::Discovered);
        assert_eq!((look(&mut search, answer(31, 112)), search.is_remembered), (0, true));
        search.add(56, SearchResult::Failed);
        let mut forgetful = search;
        assert_eq!(look(&mut forgetful, before), 1);
        assert_eq!((forgetful.next(), forgetful.is_ended_by_memory()), (Some(42), false));
        // One that still lists them ends the search.
        assert_eq!(look(&mut search, answer(59, 224)), FORGET_ATTEMPTS);
        assert_eq!((search.next(), search.is_ended_by_memory()), (None, true));
    }

    #[test]
    fn switches_may_be_listed_some_time_after_they_have_gone() {
        let before = answer(1, 0);
        let after = |answers: &[Result<DiscoveredTopology, String>]| {
            let (mut asked, mut pauses) = (answers.iter().cycle().cloned(), 0);
            let is_remembered = remembers(before, || asked.next().unwrap(), || pauses += 1);
            (is_remembered, pauses)
        };
        assert_eq!(after(&[Ok(before)]), (false, 0));
        assert_eq!(after(&[Ok(answer(17, 56)), Ok(answer(1, 56)), Ok(before)]), (false, 2));
        assert_eq!(after(&[Ok(answer(17, 0))]), (true, FORGET_ATTEMPTS));
        assert_eq!(after(&[Ok(answer(1, 2))]), (true, FORGET_ATTEMPTS));
        assert_eq!(after(&[Ok(answer(17, 0)), Err("no answer".to_owned())]), (false, 1));
    }

    #[test]
    fn the_largest_size_is_found_to_within_one() {
        for limit in [13, 14, 99, 100, 511, 5000] {
            let mut search = SizeSearch::new(14, 1000);
            let mut steps = 0;
            while let Some(size) = search.next() {
                let is_discovered = size <= limit;
                let result =
                    if is_discovered { SearchResult::Discovered } else { SearchResult::Failed };
                search.add(size, result);
                steps += 1;
                assert!(steps < 30);
            }
            let expected = Some(limit.min(1000)).filter(|limit| *limit >= 14);
            assert_eq!(search.discovered, expected, "{limit}");
            assert_eq!(search.failed.is_none(), limit > 1000);
        }
    }
}
