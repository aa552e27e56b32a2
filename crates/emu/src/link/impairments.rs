//! The impairments of one direction of a link, and changes to them.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use super::units::{
    self, LossRatio, ValueError, format_bytes, format_loss, format_rate, format_time,
};

/// Longest delay, so that the packets in transit fit into memory.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// Longest jitter, so that it fits into 32 bits of nanoseconds.
pub const JITTER_MAX: Duration = Duration::from_secs(4);

/// Lowest rate in bit/s: a packet of 1500 bytes takes 12 seconds.
pub const RATE_MIN: u64 = 1_000;

/// Highest rate in bit/s.
pub const RATE_MAX: u64 = 100_000_000_000;

/// Largest queue in bytes.
pub const QUEUE_MAX: u64 = 64_000_000;

/// Smallest automatic queue in bytes: about forty full-size packets.
const QUEUE_AUTO_MIN: u64 = 65_536;

/// The impairments of one direction of a link. The default has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkImpairments {
    /// Time from the last byte sent to the last byte received.
    pub delay: Duration,
    /// Upper bound of a random time that is added to the delay, uniformly distributed.
    pub jitter: Duration,
    /// Rate in bit/s, counting whole packets; `None` is unlimited.
    pub rate_bps: Option<NonZeroU64>,
    /// Fraction of packets that are lost after transmission.
    pub loss: LossRatio,
    /// Queue capacity in bytes, including the packet in transmission; `None` is what the rate sends in 100 ms, at least
    /// 64 KiB. A packet that does not fit is dropped; an empty queue accepts a packet of any length.
    pub queue_bytes: Option<u64>,
}

impl LinkImpairments {
    /// Queue capacity in bytes, with the automatic value resolved.
    pub fn effective_queue_bytes(&self) -> u64 {
        let auto =
            self.rate_bps.map_or(QUEUE_AUTO_MIN, |rate| (rate.get() / 80).max(QUEUE_AUTO_MIN));
        self.queue_bytes.unwrap_or(auto).min(QUEUE_MAX)
    }

    /// A copy with one change applied.
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
    /// In the syntax that [`ImpairmentChange::parse`] reads.
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

/// A new value for one impairment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImpairmentChange {
    /// New [`LinkImpairments::delay`].
    Delay(Duration),
    /// New [`LinkImpairments::jitter`].
    Jitter(Duration),
    /// New [`LinkImpairments::rate_bps`].
    Rate(Option<NonZeroU64>),
    /// New [`LinkImpairments::loss`].
    Loss(LossRatio),
    /// New [`LinkImpairments::queue_bytes`].
    Queue(Option<u64>),
}

/// Names of all impairments.
pub const IMPAIRMENT_NAMES: [&str; 5] = ["delay", "jitter", "rate", "loss", "queue"];

impl ImpairmentChange {
    /// Parses the value of the impairment `name`; `None` if there is no such impairment.
    ///
    /// # Errors
    /// The value is malformed or out of range.
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
                "a percentage such as 0.1% or 5%, 100% at most",
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
    fn impairments_are_displayed_in_the_syntax_that_is_parsed() {
        let text = "delay 25ms, jitter 1.5ms, rate 100Mbit, loss 0.1%, queue 1.25MB";
        let parts = text.split(", ").filter_map(|part| part.split_once(' '));
        let settings = parts.fold(LinkImpairments::default(), |settings, (name, value)| {
            settings.with(ImpairmentChange::parse(name, value).unwrap().unwrap())
        });
        assert_eq!(settings.to_string(), text);
        assert_eq!(
            LinkImpairments::default().to_string(),
            "delay 0ns, jitter 0ns, rate none, loss 0%, queue 65.536kB"
        );
    }

    #[test]
    fn an_automatic_queue_depends_on_the_rate() {
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
    fn values_out_of_range_are_rejected_with_the_limit() {
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
