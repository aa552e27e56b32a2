//! One direction of a link in virtual time: what it promises, whatever comes.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_base::Rng;
use sluice_emu::link::{
    Departure, LinkCounters, LinkImpairments, LinkModel, LossRatio, OfferOutcome, TrafficTotal,
};
use sluice_io::clock;

/// A packet that is offered: how long after the one before, and its bytes.
type Offer = (Duration, u32);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn rate(bits: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(bits)
}

/// One run: a pipe, its time, and what has come out of it.
struct Run {
    pipe: LinkModel<usize>,
    rng: Rng,
    start: Instant,
    now: Instant,
    offered: Vec<(Instant, u32, OfferOutcome)>,
    out: Vec<Departure<usize>>,
}

impl Run {
    fn new(settings: LinkImpairments) -> Self {
        let now = clock::now();
        Self {
            pipe: LinkModel::new(settings),
            rng: Rng::new(0x5eed),
            start: now,
            now,
            offered: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Lets everything come out that is due until `then`, each at its moment.
    fn pass(&mut self, then: Instant) {
        while let Some(due) = self.pipe.next_due_at().filter(|&due| due <= then) {
            self.now = self.now.max(due);
            while let Some(out) = self.pipe.pop_due(self.now) {
                self.out.push(out);
            }
        }
        self.now = then;
    }

    fn offer(&mut self, len: u32) -> OfferOutcome {
        let fate = self.pipe.offer(self.now, len, self.offered.len(), &mut self.rng);
        self.offered.push((self.now, len, fate));
        fate
    }

    fn play(mut self, offers: &[Offer]) -> Self {
        for &(gap, len) in offers {
            self.pass(self.now + gap);
            self.offer(len);
        }
        self.drain()
    }

    fn drain(mut self) -> Self {
        while let Some(due) = self.pipe.next_due_at() {
            self.pass(due.max(self.now));
        }
        self
    }

    /// When each came out, since the start.
    fn times(&self) -> Vec<Duration> {
        self.out.iter().map(|out| out.due - self.start).collect()
    }

    fn counts(&self) -> LinkCounters {
        self.pipe.counters()
    }
}

#[test]
fn without_settings_everything_is_due_at_once() {
    let run =
        Run::new(LinkImpairments::default()).play(&[(ms(0), 100), (ms(3), 1500), (ms(0), 1500)]);
    assert_eq!(run.times(), [ms(0), ms(3), ms(3)]);
    assert_eq!(run.counts().delivered.bytes, 3100);
}

#[test]
fn packets_are_sent_one_after_the_other_and_then_travel() {
    let settings =
        LinkImpairments { delay: ms(50), rate_bps: rate(1_000_000), ..LinkImpairments::default() };
    let run = Run::new(settings).play(&[(ms(0), 1250), (ms(1), 1250), (ms(100), 125)]);
    assert_eq!(run.times(), [ms(60), ms(70), ms(152)]);
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    let settings = LinkImpairments {
        rate_bps: rate(8_000),
        queue_bytes: Some(3_000),
        ..LinkImpairments::default()
    };
    let mut run = Run::new(settings);
    let fates: Vec<_> = (0..4).map(|_| run.offer(1_000)).collect();
    assert_eq!(fates[3], OfferOutcome::QueueFull);
    assert_eq!(run.pipe.queued_bytes(), 3_000);
    run.pass(run.start + ms(1_000));
    assert!(matches!(run.offer(1_000), OfferOutcome::Due(_)), "there is room again");
    assert_eq!(run.offer(1), OfferOutcome::QueueFull);
    let counts = run.drain().counts();
    assert_eq!((counts.delivered.packets, counts.queue_full.bytes), (4, 1_001));
    assert_eq!(counts.in_transit().packets, 0);
}

#[test]
fn a_packet_longer_than_the_queue_passes_alone() {
    let settings = LinkImpairments {
        rate_bps: rate(8_000),
        queue_bytes: Some(10),
        ..LinkImpairments::default()
    };
    let mut run = Run::new(settings);
    assert!(matches!(run.offer(1_500), OfferOutcome::Due(_)));
    assert_eq!(run.offer(1_500), OfferOutcome::QueueFull);
}

#[test]
fn what_is_lost_takes_its_time_on_the_line() {
    let lossy = LinkImpairments {
        loss: LossRatio::ALL,
        rate_bps: rate(8_000_000),
        ..LinkImpairments::default()
    };
    let mut run = Run::new(lossy);
    assert_eq!(run.offer(1_000), OfferOutcome::Lost);
    run.pipe.set_impairments(run.now, LinkImpairments { loss: LossRatio::NONE, ..lossy });
    run.offer(1_000);
    let run = run.drain();
    assert_eq!(run.times(), [ms(2)]);
    assert_eq!(run.counts().lost.packets, 1);
}

#[test]
fn a_new_rate_holds_for_what_waits_already() {
    let slow =
        LinkImpairments { delay: ms(5), rate_bps: rate(8_000), ..LinkImpairments::default() };
    let mut run = Run::new(slow);
    run.offer(1_000);
    run.offer(1_000);
    run.pass(run.start + ms(500));
    run.pipe.set_impairments(run.now, LinkImpairments { rate_bps: rate(80_000), ..slow });
    // The half that is left takes a tenth of 500 ms, the second packet a tenth of a second.
    assert_eq!(run.drain().times(), [ms(555), ms(655)]);
}

#[test]
fn without_a_rate_what_waits_is_sent_at_once() {
    let slow = LinkImpairments { rate_bps: rate(8_000), ..LinkImpairments::default() };
    let mut run = Run::new(slow);
    run.offer(1_000);
    run.offer(1_000);
    run.pass(run.start + ms(200));
    run.pipe.set_impairments(run.now, LinkImpairments::default());
    assert_eq!(run.pipe.queued_bytes(), 2_000, "not looked at since");
    assert_eq!(run.drain().times(), [ms(200), ms(200)]);
}

#[test]
fn a_shorter_delay_lets_nothing_overtake() {
    let far = LinkImpairments { delay: ms(500), ..LinkImpairments::default() };
    let mut run = Run::new(far);
    run.offer(1);
    run.pipe.set_impairments(run.now, LinkImpairments { delay: ms(5), ..far });
    run.offer(2);
    let run = run.drain();
    assert_eq!(run.times(), [ms(500), ms(500)]);
    assert_eq!(run.out.iter().map(|out| out.item).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn the_same_seed_does_the_same() {
    let share = LossRatio::from_ppm(300_000);
    let settings =
        LinkImpairments { loss: share, jitter: ms(9), delay: ms(1), ..LinkImpairments::default() };
    let offers: Vec<_> = (0..500).map(|n| (ms(n % 3), 100)).collect();
    assert_eq!(Run::new(settings).play(&offers).times(), Run::new(settings).play(&offers).times());
}

/// Of 100 000 packets with a loss of 1 %, six standard deviations are 189 packets.
#[test]
fn the_share_that_is_lost_is_the_share_that_was_asked_for() {
    for (share, mean, most) in [(10_000, 1_000, 189), (500_000, 50_000, 949), (100, 10, 19)] {
        let settings =
            LinkImpairments { loss: LossRatio::from_ppm(share), ..LinkImpairments::default() };
        let offers = vec![(ms(0), 64); 100_000];
        let lost = Run::new(settings).play(&offers).counts().lost.packets;
        assert!(lost.abs_diff(mean) <= most, "{lost} of 100000 at {share}/1000000");
    }
}

/// The mean of 20 000 even values is that of the range within six standard deviations, 1.2 % of the range.
#[test]
fn jitter_is_even_over_its_range() {
    let settings = LinkImpairments { jitter: ms(10), ..LinkImpairments::default() };
    let run = Run::new(settings).play(&vec![(ms(20), 64); 20_000]);
    let over: Vec<_> =
        (run.times().into_iter().zip(1..)).map(|(at, n)| at.saturating_sub(ms(20) * n)).collect();
    let sum: Duration = over.iter().sum();
    let mean_us = sum.as_micros() / 20_000;
    assert!(mean_us.abs_diff(5_000) < 130, "{mean_us}");
    assert!(over.iter().all(|&over| over <= ms(10)));
}

fn settings() -> impl Strategy<Value = LinkImpairments> {
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

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    vec(((0..20_000_u64).prop_map(Duration::from_micros), 0..2_000_u32), 0..200)
}

proptest! {
    #[test]
    fn nothing_is_early_overtakes_or_appears(settings in settings(), offers in offers()) {
        let run = Run::new(settings).play(&offers);
        let mut last = None;
        for out in &run.out {
            let (at, len, fate) = run.offered[out.item];
            prop_assert!(out.due >= at + settings.delay);
            prop_assert_eq!(fate, OfferOutcome::Due(out.due));
            prop_assert_eq!(len, out.len);
            prop_assert!(last < Some((out.due, out.item)));
            last = Some((out.due, out.item));
        }
        let counts = run.counts();
        prop_assert_eq!(counts.offered.packets, offers.len() as u64);
        prop_assert_eq!(counts.delivered.packets, run.out.len() as u64);
        prop_assert_eq!(counts.in_transit(), TrafficTotal::default());
        prop_assert_eq!((run.pipe.in_transit_bytes(), run.pipe.next_due_at()), (0, None));
    }

    /// With a constant delay packets come out as they were sent: over any stretch, no more than the rate allows.
    #[test]
    fn the_rate_is_never_exceeded(bits in 1_000..1_000_000_000_u64, offers in offers()) {
        let settings = LinkImpairments { rate_bps: rate(bits), delay: ms(3), ..LinkImpairments::default() };
        let run = Run::new(settings).play(&offers);
        for pair in run.out.windows(2) {
            let took = (pair[1].due - pair[0].due).as_nanos();
            prop_assert!(u128::from(pair[1].len) * 8_000_000_000 <= took * u128::from(bits));
        }
    }

    #[test]
    fn the_queue_is_never_longer_than_it_may_be(settings in settings(), offers in offers()) {
        let mut run = Run::new(settings);
        for (gap, len) in offers {
            run.pass(run.now + gap);
            run.offer(len);
            let most = settings.effective_queue_bytes().max(2_000);
            prop_assert!(run.pipe.queued_bytes() <= most);
        }
    }

    /// Whatever is changed on the way: everything is accounted for, in order, and not before its offer.
    #[test]
    fn changes_lose_nothing_and_keep_the_order(
        steps in vec((settings(), offers()), 1..5),
    ) {
        let mut run = Run::new(LinkImpairments::default());
        for (settings, offers) in steps {
            run.pipe.set_impairments(run.now, settings);
            for (gap, len) in offers {
                run.pass(run.now + gap);
                run.offer(len);
            }
        }
        let run = run.drain();
        prop_assert_eq!(run.counts().in_transit(), TrafficTotal::default());
        prop_assert!(run.out.iter().all(|out| out.due >= run.offered[out.item].0));
        prop_assert!(run.out.windows(2).all(|pair| pair[0].item < pair[1].item));
        prop_assert!(run.out.windows(2).all(|pair| pair[0].due <= pair[1].due));
    }
}
