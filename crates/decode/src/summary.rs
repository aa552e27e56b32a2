//! The table of `--summary`: messages, errors and latencies by type and direction.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use sluice_openflow::{MessageType, RawMessage, view};

use crate::MessageCounts;
use crate::pairing::AnsweredRequest;
use crate::record::{Direction, microseconds, type_name};

/// Significant digits of latencies.
const LATENCY_DIGITS: u8 = 2;

/// The longest latency that is told apart from longer ones. With two digits, a histogram takes 20 KiB.
const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Percentiles of the latency that are shown, besides the maximum.
const PERCENTILES: [f64; 2] = [50.0, 99.0];

/// Counts by type and direction. The number of rows is bounded by the number of types in a byte.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    rows: BTreeMap<(u16, Option<Direction>), Row>,
}

/// The messages of one type in one direction.
#[derive(Debug, Default)]
struct Row {
    messages: u64,
    bytes: u64,
    malformed: u64,
    /// `ERROR` messages about messages of this type.
    errors: u64,
    /// Latencies of the answered requests in nanoseconds, once there is one.
    latencies: Option<Histogram<u64>>,
}

impl Row {
    fn answered(&self) -> u64 {
        self.latencies.as_ref().map_or(0, Histogram::len)
    }
}

impl Summary {
    fn row(&mut self, message_type: MessageType, direction: Option<Direction>) -> &mut Row {
        self.rows.entry((message_type.0, direction)).or_default()
    }

    /// Counts a message.
    pub(crate) fn record(&mut self, message: RawMessage<'_>, direction: Option<Direction>) {
        let row = self.row(message.kind(), direction);
        row.messages += 1;
        row.bytes += message.bytes().len() as u64;
        if message.kind() == MessageType::ERROR
            && let Ok(error) = view::ErrorMsg::new(message)
            && let Some(request) = error.request()
        {
            self.row(request, direction.map(Direction::opposite)).errors += 1;
        }
    }

    /// Counts a message, which has been recorded, as malformed.
    pub(crate) fn record_malformed(&mut self, kind: MessageType, direction: Option<Direction>) {
        self.row(kind, direction).malformed += 1;
    }

    /// Counts an answer to a request that was sent in `direction`.
    pub(crate) fn record_answer(&mut self, answered: AnsweredRequest, direction: Direction) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let row = self.row(answered.request, Some(direction));
        if row.latencies.is_none() {
            let max = nanos(LATENCY_MAX);
            row.latencies = Histogram::new_with_bounds(1, max, LATENCY_DIGITS).ok();
        }
        if let Some(latencies) = &mut row.latencies {
            latencies.saturating_record(nanos(answered.latency));
        }
    }

    /// The table in JSON, which `docs/decode.md` documents.
    pub(crate) fn to_json<'a>(&self, counts: &'a MessageCounts) -> JsonSummary<'a> {
        let rows = self.rows.iter().map(|(&(message_type, direction), row)| JsonRow {
            r#type: type_name(MessageType(message_type)),
            direction,
            messages: row.messages,
            bytes: row.bytes,
            malformed: row.malformed,
            errors: row.errors,
            answered: row.answered(),
            latency_us: row.latencies.as_ref().map(JsonLatency::new),
        });
        JsonSummary { summary: rows.collect(), counts }
    }
}

/// A line of JSON: the rows, and what could not be decoded.
#[derive(Debug, Serialize)]
pub(crate) struct JsonSummary<'a> {
    summary: Vec<JsonRow>,
    #[serde(flatten)]
    counts: &'a MessageCounts,
}

#[derive(Debug, Serialize)]
struct JsonRow {
    r#type: String,
    direction: Option<Direction>,
    messages: u64,
    bytes: u64,
    malformed: u64,
    errors: u64,
    answered: u64,
    latency_us: Option<JsonLatency>,
}

#[derive(Debug, Serialize)]
struct JsonLatency {
    p50: f64,
    p99: f64,
    max: f64,
}

impl JsonLatency {
    fn new(latencies: &Histogram<u64>) -> Self {
        let us = |ns| microseconds(Duration::from_nanos(ns));
        let [p50, p99] = PERCENTILES.map(|p| us(latencies.value_at_percentile(p)));
        Self { p50, p99, max: us(latencies.max()) }
    }
}

/// A table with a header line.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24} {:<13} {:>10} {:>12} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9}",
            "type",
            "direction",
            "messages",
            "bytes",
            "malformed",
            "errors",
            "answered",
            "p50 ms",
            "p99 ms",
            "max ms"
        )?;
        for (&(message_type, direction), row) in &self.rows {
            let name = MessageType(message_type).to_string();
            let direction = direction.map_or("", Direction::text);
            write!(f, "{name:<24} {direction:<13} {:>10} {:>12}", row.messages, row.bytes)?;
            write!(f, " {:>9} {:>7}", row.malformed, row.errors)?;
            match &row.latencies {
                Some(latencies) => {
                    let JsonLatency { p50, p99, max } = JsonLatency::new(latencies);
                    let [p50, p99, max] = [p50, p99, max].map(|us| us / 1e3);
                    writeln!(f, " {:>9} {p50:>9.3} {p99:>9.3} {max:>9.3}", row.answered())?;
                }
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
