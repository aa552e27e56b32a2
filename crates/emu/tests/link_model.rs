//! The link model in virtual time, with fixed cases and property tests.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_base::Rng;
use sluice_emu::link::{
    Departure, LinkCounters, LinkImpairments, LinkModel, LossRatio, OfferOutcome, TrafficTotal,
};
use sluice_io::clock;

/// Time since the previous packet, and length in bytes.
type OfferedPacket = (Duration, u32);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn rate(bits: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(bits)
}

/// A link in virtual time, with the packets offered to it and those that have arrived.
struct LinkRun {
    link: LinkModel<usize>,
    rng: Rng,
    start: Instant,
    now: Instant,
    offered: Vec<(Instant, u32, OfferOutcome)>,
    arrived: Vec<Departure<usize>>,
}

impl LinkRun {
    fn new(impairments: LinkImpairments) -> Self {
        let now = clock::now();
        Self {
            link: LinkModel::new(impairments),
            rng: Rng::new(0x5eed),
            start: now,
            now,
            offered: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// Advances the time to `until`; each packet arrives when it is due.
    fn run_until(&mut self, until: Instant) {
        while let Some(due) = self.link.next_due_at().filter(|&due| due <= until) {
            self.now = self.now.max(due);
            while let Some(arrived) = self.link.pop_due(self.now) {
                self.arrived.push(arrived);
            }
        }
        self.now = until;
    }

    fn offer(&mut self, len: u32) -> OfferOutcome {
        let outcome = self.link.offer(self.now, len, self.offered.len(), &mut self.rng);
        self.offered.push((self.now, len, outcome));
        outcome
    }

    fn offer_all(mut self, offers: &[OfferedPacket]) -> Self {
        for &(gap, len) in offers {
            self.run_until(self.now + gap);
            self.offer(len);
        }
        self.drain()
    }

    fn drain(mut self) -> Self {
        while let Some(due) = self.link.next_due_at() {
            self.run_until(due.max(self.now));
        }
        self
    }

    /// Arrival times since the start.
    fn times(&self) -> Vec<Duration> {
        self.arrived.iter().map(|arrived| arrived.due - self.start).collect()
    }

    fn counters(&self) -> LinkCounters {
        self.link.counters()
    }
}

#[test]
fn without_impairments_packets_arrive_at_once() {
    let run = LinkRun::new(LinkImpairments::default()).offer_all(&[
        (ms(0), 100),
        (ms(3), 1500),
        (ms(0), 1500),
    ]);
    assert_eq!(run.times(), [ms(0), ms(3), ms(3)]);
    assert_eq!(run.counters().delivered.bytes, 3100);
}

#[test]
fn transmission_times_add_up_and_the_delay_follows() {
    let impairments =
        LinkImpairments { delay: ms(50), rate_bps: rate(1_000_000), ..LinkImpairments::default() };
    let run = LinkRun::new(impairments).offer_all(&[(ms(0), 1250), (ms(1), 1250), (ms(100), 125)]);
    assert_eq!(run.times(), [ms(60), ms(70), ms(152)]);
}

#[test]
fn a_full_queue_drops_the_newest_packet() {
    let impairments = LinkImpairments {
        rate_bps: rate(8_000),
        queue_bytes: Some(3_000),
        ..LinkImpairments::default()
    };
    let mut run = LinkRun::new(impairments);
    let outcomes: Vec<_> = (0..4).map(|_| run.offer(1_000)).collect();
    assert_eq!(outcomes[3], OfferOutcome::QueueFull);
    assert_eq!(run.link.queued_bytes(), 3_000);
    run.run_until(run.start + ms(1_000));
    assert!(matches!(run.offer(1_000), OfferOutcome::Due(_)), "the queue has room again");
    assert_eq!(run.offer(1), OfferOutcome::QueueFull);
    let counters = run.drain().counters();
    assert_eq!((counters.delivered.packets, counters.queue_full.bytes), (4, 1_001));
    assert_eq!(counters.in_transit().packets, 0);
}

#[test]
fn an_empty_queue_accepts_a_packet_of_any_length() {
    let impairments = LinkImpairments {
        rate_bps: rate(8_000),
        queue_bytes: Some(10),
        ..LinkImpairments::default()
    };
    let mut run = LinkRun::new(impairments);
    assert!(matches!(run.offer(1_500), OfferOutcome::Due(_)));
    assert_eq!(run.offer(1_500), OfferOutcome::QueueFull);
}

#[test]
fn a_lost_packet_takes_its_transmission_time() {
    let lossy = LinkImpairments {
        loss: LossRatio::ALL,
        rate_bps: rate(8_000_000),
        ..LinkImpairments::default()
    };
    let mut run = LinkRun::new(lossy);
    assert_eq!(run.offer(1_000), OfferOutcome::Lost);
    run.link.set_impairments(run.now, LinkImpairments { loss: LossRatio::NONE, ..lossy });
    run.offer(1_000);
    let run = run.drain();
    assert_eq!(run.times(), [ms(2)]);
    assert_eq!(run.counters().lost.packets, 1);
}

#[test]
fn a_new_rate_applies_to_queued_packets() {
    let slow =
        LinkImpairments { delay: ms(5), rate_bps: rate(8_000), ..LinkImpairments::default() };
    let mut run = LinkRun::new(slow);
    run.offer(1_000);
    run.offer(1_000);
    run.run_until(run.start + ms(500));
    run.link.set_impairments(run.now, LinkImpairments { rate_bps: rate(80_000), ..slow });
    // The remaining half of the first packet takes a tenth of 500 ms, the second packet a tenth of a second.
    assert_eq!(run.drain().times(), [ms(555), ms(655)]);
}

#[test]
fn removing_the_rate_sends_queued_packets_at_once() {
    let slow = LinkImpairments { rate_bps: rate(8_000), ..LinkImpairments::default() };
    let mut run = LinkRun::new(slow);
    run.offer(1_000);
    run.offer(1_000);
    run.run_until(run.start + ms(200));
    run.link.set_impairments(run.now, LinkImpairments::default());
    assert_eq!(run.link.queued_bytes(), 2_000, "as of the last call");
    assert_eq!(run.drain().times(), [ms(200), ms(200)]);
}

#[test]
fn a_reduced_delay_does_not_reorder_packets() {
    let far = LinkImpairments { delay: ms(500), ..LinkImpairments::default() };
    let mut run = LinkRun::new(far);
    run.offer(1);
    run.link.set_impairments(run.now, LinkImpairments { delay: ms(5), ..far });
    run.offer(2);
    let run = run.drain();
    assert_eq!(run.times(), [ms(500), ms(500)]);
    assert_eq!(run.arrived.iter().map(|arrived| arrived.item).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_seed_reproduces_a_run() {
    let ppm = LossRatio::from_ppm(300_000);
    let impairments =
        LinkImpairments { loss: ppm, jitter: ms(9), delay: ms(1), ..LinkImpairments::default() };
    let offers: Vec<_> = (0..500).map(|n| (ms(n % 3), 100)).collect();
    assert_eq!(
        LinkRun::new(impairments).offer_all(&offers).times(),
        LinkRun::new(impairments).offer_all(&offers).times()
    );
}

/// With 100 000 packets and a loss of 1 %, six standard deviations are 189 packets.
#[test]
fn the_measured_loss_is_the_configured_loss() {
    for (ppm, mean, tolerance) in [(10_000, 1_000, 189), (500_000, 50_000, 949), (100, 10, 19)] {
        let impairments =
            LinkImpairments { loss: LossRatio::from_ppm(ppm), ..LinkImpairments::default() };
        let offers = vec![(ms(0), 64); 100_000];
        let lost = LinkRun::new(impairments).offer_all(&offers).counters().lost.packets;
        assert!(lost.abs_diff(mean) <= tolerance, "{lost} of 100000 at {ppm} ppm");
    }
}

/// The mean of 20 000 uniform values is the middle of the range within 1.2 % of the range (six standard deviations).
#[test]
fn jitter_is_uniformly_distributed() {
    let impairments = LinkImpairments { jitter: ms(10), ..LinkImpairments::default() };
    let run = LinkRun::new(impairments).offer_all(&vec![(ms(20), 64); 20_000]);
    let jitters: Vec<_> =
        (run.times().into_iter().zip(1..)).map(|(at, n)| at.saturating_sub(ms(20) * n)).collect();
    let sum: Duration = jitters.iter().sum();
    let mean_us = sum.as_micros() / 20_000;
    assert!(mean_us.abs_diff(5_000) < 130, "{mean_us}");
    assert!(jitters.iter().all(|&jitters| jitters <= ms(10)));
}

fn impairments() -> impl Strategy<Value = LinkImpairments> {
    let rate = prop_oneof![Just(None), (1_000..1_000_000_000_u64).prop_map(rate)];
    let queue = prop_oneof![Just(None), (0..100_000_u64).prop_map(Some)];
    (0..200_u64, 0..50_u64, rate, 0..500_000_u32, queue).prop_map(
        |(delay, jitter, rate_bps, loss, queue_bytes)| LinkImpairments {
            delay: ms(delay),
            jitter: ms(jitter),
            rate_bps,
            loss: LossRatio::from_ppm(loss),
            queue_bytes,
        },
    )
}

fn offers() -> impl Strategy<Value = Vec<OfferedPacket>> {
    vec(((0..20_000_u64).prop_map(Duration::from_micros), 0..2_000_u32), 0..200)
}

proptest! {
    #[test]
    fn packets_are_neither_early_nor_reordered_nor_invented(impairments in impairments(), offers in offers()) {
        let run = LinkRun::new(impairments).offer_all(&offers);
        let mut last = None;
        for arrived in &run.arrived {
            let (at, len, outcome) = run.offered[arrived.item];
            prop_assert!(arrived.due >= at + impairments.delay);
            prop_assert_eq!(outcome, OfferOutcome::Due(arrived.due));
            prop_assert_eq!(len, arrived.len);
            prop_assert!(last < Some((arrived.due, arrived.item)));
            last = Some((arrived.due, arrived.item));
        }
        let counters = run.counters();
        prop_assert_eq!(counters.offered.packets, offers.len() as u64);
        prop_assert_eq!(counters.delivered.packets, run.arrived.len() as u64);
        prop_assert_eq!(counters.in_transit(), TrafficTotal::default());
        prop_assert_eq!((run.link.in_transit_bytes(), run.link.next_due_at()), (0, None));
    }

    /// With a constant delay, packets arrive as they were transmitted, never faster than the rate.
    #[test]
    fn the_rate_is_never_exceeded(bits in 1_000..1_000_000_000_u64, offers in offers()) {
        let impairments = LinkImpairments { rate_bps: rate(bits), delay: ms(3), ..LinkImpairments::default() };
        let run = LinkRun::new(impairments).offer_all(&offers);
        for pair in run.arrived.windows(2) {
            let took = (pair[1].due - pair[0].due).as_nanos();
            prop_assert!(u128::from(pair[1].len) * 8_000_000_000 <= took * u128::from(bits));
        }
    }

    #[test]
    fn the_queue_never_exceeds_its_capacity(impairments in impairments(), offers in offers()) {
        let mut run = LinkRun::new(impairments);
        for (gap, len) in offers {
            run.run_until(run.now + gap);
            run.offer(len);
            let tolerance = impairments.effective_queue_bytes().max(2_000);
            prop_assert!(run.link.queued_bytes() <= tolerance);
        }
    }

    /// However the impairments change, every packet is accounted for, in order, and not before it was offered.
    #[test]
    fn changes_of_impairments_lose_nothing_and_keep_the_order(
        steps in vec((impairments(), offers()), 1..5),
    ) {
        let mut run = LinkRun::new(LinkImpairments::default());
        for (impairments, offers) in steps {
            run.link.set_impairments(run.now, impairments);
            for (gap, len) in offers {
                run.run_until(run.now + gap);
                run.offer(len);
            }
        }
        let run = run.drain();
        prop_assert_eq!(run.counters().in_transit(), TrafficTotal::default());
        prop_assert!(run.arrived.iter().all(|arrived| arrived.due >= run.offered[arrived.item].0));
        prop_assert!(run.arrived.windows(2).all(|pair| pair[0].item < pair[1].item));
        prop_assert!(run.arrived.windows(2).all(|pair| pair[0].due <= pair[1].due));
    }
}
