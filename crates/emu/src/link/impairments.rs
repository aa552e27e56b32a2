//! What one direction of a link does to packets, and how that is changed.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use super::units::{
    self, LossRatio, ValueError, format_bytes, format_loss, format_rate, format_time,
};

/// The longest delay: far beyond the moon, and what is on the way still fits into memory.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// The longest jitter: what 32 bits of nanoseconds hold.
pub const JITTER_MAX: Duration = Duration::from_secs(4);

/// The slowest rate, bit/s: a packet of 1 500 bytes takes 12 seconds.
pub const RATE_MIN: u64 = 1_000;

/// The fastest rate, bit/s.
pub const RATE_MAX: u64 = 100_000_000_000;

/// The largest queue, bytes.
pub const QUEUE_MAX: u64 = 64_000_000;

/// The smallest queue that is chosen by itself, bytes: some forty packets of full size.
const QUEUE_AUTO_MIN: u64 = 65_536;

/// What one direction of a link does to packets. The default does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkImpairments {
    /// From the last byte sent to the last byte received.
    pub delay: Duration,
    /// Up to so much is added to the delay, each value as likely as any other.
    pub jitter: Duration,
    /// bit/s of whole packets, as they are offered; `None` sends at once.
    pub rate_bps: Option<NonZeroU64>,
    /// Share of packets that are sent and do not arrive.
    pub loss: LossRatio,
    /// Bytes that wait to be sent, the packet that is being sent included; `None` is what the rate sends in 100 ms, at
    /// least 64 KiB. A packet that finds no room is dropped; one that finds the queue empty is taken, however long.
    pub queue_bytes: Option<u64>,
}

impl LinkImpairments {
    /// Bytes that may wait.
    pub fn effective_queue_bytes(&self) -> u64 {
        let auto =
            self.rate_bps.map_or(QUEUE_AUTO_MIN, |rate| (rate.get() / 80).max(QUEUE_AUTO_MIN));
        self.queue_bytes.unwrap_or(auto).min(QUEUE_MAX)
    }

    /// The same, but for one change.
    #[must_use]
    pub fn with(mut self, change: ImpairmentChange) -> Self {
        match change {
            ImpairmentChange::Delay(delay) => self.delay = delay,
            ImpairmentChange::Jitter(jitter) => self.jitter = jitter,
            ImpairmentChange::Rate(rate) => self.rate_bps = rate,
            ImpairmentChange::Loss(loss) => self.loss = loss,
            ImpairmentChange::Queue(queue) => self.queue_bytes = queue,
        }
        self
    }
}

impl fmt::Display for LinkImpairments {
    /// In the words that [`ImpairmentChange::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { delay, jitter, rate_bps, loss, .. } = *self;
        write!(f, "delay {}, jitter {}, ", format_time(delay), format_time(jitter))?;
        match rate_bps {
            Some(rate) => write!(f, "rate {}, ", format_rate(rate.get()))?,
            None => f.write_str("rate none, ")?,
        }
        write!(
            f,
            "loss {}, queue {}",
            format_loss(loss),
            format_bytes(self.effective_queue_bytes())
        )
    }
}

/// One setting, new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImpairmentChange {
    /// [`LinkImpairments::delay`].
    Delay(Duration),
    /// [`LinkImpairments::jitter`].
    Jitter(Duration),
    /// [`LinkImpairments::rate_bps`].
    Rate(Option<NonZeroU64>),
    /// [`LinkImpairments::loss`].
    Loss(LossRatio),
    /// [`LinkImpairments::queue_bytes`].
    Queue(Option<u64>),
}

/// The settings by name.
pub const IMPAIRMENT_NAMES: [&str; 5] = ["delay", "jitter", "rate", "loss", "queue"];

impl ImpairmentChange {
    /// Reads the value of the setting `name`; `None` if none is called that.
    ///
    /// # Errors
    /// The value is no value of that setting, or beyond its limits.
    pub fn parse(name: &str, text: &str) -> Option<Result<Self, ValueError>> {
        let is = |word| text.eq_ignore_ascii_case(word);
        let (change, expected) = match name {
            "delay" => (
                units::parse_time(text, DELAY_MAX).map(Self::Delay),
                "a time such as 25ms, 1.5s or 300us, 60s at most",
            ),
            "jitter" => (
                units::parse_time(text, JITTER_MAX).map(Self::Jitter),
                "a time such as 5ms or 300us, 4s at most",
            ),
            "rate" if is("none") => (Some(Self::Rate(None)), ""),
            "rate" => (
                units::parse_rate(text)
                    .filter(|rate| (RATE_MIN..=RATE_MAX).contains(&rate.get()))
                    .map(|rate| Self::Rate(Some(rate))),
                "a rate such as 100Mbit or 64kbit, 1kbit to 100Gbit, or none",
            ),
            "loss" => (
                units::parse_loss(text).map(Self::Loss),
                "a share such as 0.1% or 5%, 100% at most",
            ),
            "queue" if is("auto") => (Some(Self::Queue(None)), ""),
            "queue" => (
                units::parse_bytes(text)
                    .filter(|&bytes| bytes <= QUEUE_MAX)
                    .map(|bytes| Self::Queue(Some(bytes))),
                "a number of bytes such as 1.25MB or 64KiB, 64MB at most, or auto",
            ),
            _ => return None,
        };
        Some(change.ok_or_else(|| ValueError { value: text.to_owned(), expected }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_said() {
        let words = "delay 25ms, jitter 1.5ms, rate 100Mbit, loss 0.1%, queue 1.25MB";
        let said = words.split(", ").filter_map(|part| part.split_once(' '));
        let settings = said.fold(LinkImpairments::default(), |settings, (name, value)| {
            settings.with(ImpairmentChange::parse(name, value).unwrap().unwrap())
        });
        assert_eq!(settings.to_string(), words);
        assert_eq!(
            LinkImpairments::default().to_string(),
            "delay 0ns, jitter 0ns, rate none, loss 0%, queue 65.536kB"
        );
    }

    #[test]
    fn a_queue_that_nobody_chose_follows_the_rate() {
        let at = |rate| LinkImpairments {
            rate_bps: NonZeroU64::new(rate),
            ..LinkImpairments::default()
        };
        assert_eq!(at(100_000_000).effective_queue_bytes(), 1_250_000);
        assert_eq!(at(10_000).effective_queue_bytes(), 65_536);
        assert_eq!(at(RATE_MAX).effective_queue_bytes(), QUEUE_MAX);
        assert_eq!(
            LinkImpairments { queue_bytes: Some(3_000), ..at(1_000) }.effective_queue_bytes(),
            3_000
        );
    }

    #[test]
    fn values_beyond_the_limits_are_refused_with_the_limits() {
        for (name, text, limit) in [
            ("delay", "61s", "60s"),
            ("jitter", "5s", "4s"),
            ("rate", "999bit", "1kbit"),
            ("rate", "101Gbit", "100Gbit"),
            ("loss", "100.1%", "100%"),
            ("queue", "65MB", "64MB"),
        ] {
            let error = ImpairmentChange::parse(name, text).unwrap().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is not a")), "{error}");
            assert!(error.contains(limit), "{error}");
        }
        assert_eq!(ImpairmentChange::parse("colour", "red"), None);
        assert_eq!(ImpairmentChange::parse("rate", "none"), Some(Ok(ImpairmentChange::Rate(None))));
        assert_eq!(
            ImpairmentChange::parse("queue", "AUTO"),
            Some(Ok(ImpairmentChange::Queue(None)))
        );
    }
}
