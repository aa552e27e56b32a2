//! `sluice show events`: what happens in the network, from the API of the controller.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use sluice_io::clock;

use crate::api_client::{ApiArgs, ApiClient, ApiFailure};
use crate::show::printable;
use crate::{print_error, write_stdout};

/// Events that are shown before those that follow.
const HISTORY_DEFAULT: usize = 20;

/// Pause before the stream is opened again after it has ended.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The status of an answer to a client that has sent too many invalid tokens for the moment.
const TOO_MANY_REQUESTS: u16 = 429;

/// Bytes of a message of the stream: an event has at most some thousand.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// Show new events as they happen, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Only events of this kind; a list is given with commas, or with one option for each item
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,
    /// Only events about this switch, by name or datapath id
    #[arg(long)]
    switch: Option<String>,
    /// How many of the last events are shown [default: 1000, and 20 with --follow]
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

/// What the stream says in one message.
#[derive(Debug, Default, PartialEq, Eq)]
struct StreamMessage {
    id: Option<String>,
    event: String,
    data: String,
}

impl EventArgs {
    /// Prints events.
    pub(crate) fn run(&self, api: &ApiArgs, is_json: bool) -> Result<(), String> {
        let api = api.client()?;
        let last = self.last.or_else(|| self.follow.then_some(HISTORY_DEFAULT));
        let mut query = self.filter();
        query.extend(last.map(|last| ("limit", last.to_string())));
        let document = api.get_json("/v1/events/history", &as_pairs(&query))?;
        let events = document.get("events").and_then(Value::as_array);
        let lines: String = events.into_iter().flatten().map(|it| line(it, is_json)).collect();
        write_stdout(&lines)?;
        if !self.follow {
            return Ok(());
        }
        let last_id = document.get("last_id").and_then(Value::as_str).unwrap_or_default();
        self.follow(last_id.to_owned(), &api, is_json)
    }

    /// Prints new events, those after `last_id`, also when the stream has to be opened again.
    fn follow(&self, mut last_id: String, api: &ApiClient, is_json: bool) -> Result<(), String> {
        let mut is_reported = false;
        loop {
            let mut query = self.filter();
            query.push(("after", last_id.clone()));
            let (mut parser, mut printed) = (StreamParser::default(), Ok(()));
            let ended = api.stream("/v1/events", &as_pairs(&query), &[], |part| {
                let messages = parser.push(part);
                printed = messages.and_then(|it| print_messages(it, &mut last_id, is_json));
                if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            printed?;
            match ended {
                Ok(()) => print_error("the stream of events has ended; it is opened again"),
                Err(error) if is_final(&error) => return Err(error.message),
                Err(error) if !is_reported => print_error(&format!("{error}; trying again")),
                Err(_) => {}
            }
            is_reported = true;
            clock::sleep(RETRY_INTERVAL);
        }
    }

    fn filter(&self) -> Vec<(&'static str, String)> {
        let kinds = Some(self.kind.join(",")).filter(|kinds| !kinds.is_empty());
        let kinds = kinds.map(|kinds| ("kind", kinds));
        kinds.into_iter().chain(self.switch.clone().map(|switch| ("switch", switch))).collect()
    }
}

/// Whether the same request will be refused again: the controller has answered, and not that it is busy.
fn is_final(failure: &ApiFailure) -> bool {
    failure.status.is_some_and(|status| (400..500).contains(&status) && status != TOO_MANY_REQUESTS)
}

fn as_pairs<'q>(query: &'q [(&'static str, String)]) -> Vec<(&'q str, &'q str)> {
    query.iter().map(|(key, value)| (*key, value.as_str())).collect()
}

/// Prints messages of a stream. An error is one of standard output.
fn print_messages(
    messages: Vec<StreamMessage>,
    last_id: &mut String,
    is_json: bool,
) -> Result<(), String> {
    for message in messages {
        if let Some(id) = message.id {
            *last_id = id;
        }
        if message.data.is_empty() {
            continue;
        }
        let text = match serde_json::from_str::<Value>(&message.data) {
            _ if is_json => message.data + "\n",
            Ok(document) if document.get("kind").is_some() => line(&document, false),
            Ok(notice) => {
                let text = notice.get("text").and_then(Value::as_str).unwrap_or_default();
                format!("-- {}: {}\n", printable(&message.event), printable(text))
            }
            Err(error) => format!("-- not JSON: {error}\n"),
        };
        write_stdout(&text)?;
    }
    Ok(())
}

/// Takes a stream apart, which arrives in parts of any length.
#[derive(Debug, Default)]
struct StreamParser {
    /// The beginning of a line.
    line: Vec<u8>,
    /// The beginning of a message.
    message: StreamMessage,
}

impl StreamParser {
    /// The messages that `part` completes.
    fn push(&mut self, part: &[u8]) -> Result<Vec<StreamMessage>, String> {
        let mut messages = vec![];
        for piece in part.split_inclusive(|&byte| byte == b'\n') {
            if self.line.len() + self.message.data.len() + piece.len() > MESSAGE_BYTES_MAX {
                return Err(format!("an event has more than {MESSAGE_BYTES_MAX} bytes"));
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                messages.extend(self.end_line(&String::from_utf8_lossy(&line)));
            }
        }
        Ok(messages)
    }

    /// An empty line ends a message.
    fn end_line(&mut self, line: &str) -> Option<StreamMessage> {
        let message = &mut self.message;
        match line.trim_end_matches(['\r', '\n']).split_once(':') {
            None if line.trim().is_empty() => return Some(std::mem::take(message)),
            Some(("id", id)) => message.id = Some(id.trim_start().to_owned()),
            Some(("event", event)) => event.trim_start().clone_into(&mut message.event),
            Some(("data", data)) => message.data.push_str(data.trim_start()),
            // Comments, and fields that are not known.
            _ => {}
        }
        None
    }
}

/// An event in one line.
fn line(event: &Value, is_json: bool) -> String {
    if is_json {
        return format!("{event}\n");
    }
    let at = event.get("at_unix_s").and_then(Value::as_f64).unwrap_or_default();
    let text = event.get("text").and_then(Value::as_str).unwrap_or_default();
    format!("{}  {}\n", utc(at), printable(text))
}

/// A time as `2026-03-01T12:34:56.789Z`.
#[expect(clippy::cast_possible_truncation, reason = "times that a clock can show")]
pub(crate) fn utc(unix_s: f64) -> String {
    let ms = (unix_s * 1000.0).round() as i64;
    let (days, ms) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Days since 0000-03-01, in eras of 400 years: years begin in March, so that a leap day is the last one.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + carry;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let ms = ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        for (unix_s, text) in [
            (0.0, "1970-01-01T00:00:00.000Z"),
            (951_782_399.5, "2000-02-28T23:59:59.500Z"),
            (951_782_400.0, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199.0, "2024-02-29T23:59:59.000Z"),
            (1_767_225_599.999, "2025-12-31T23:59:59.999Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(unix_s), text);
        }
    }

    #[test]
    fn messages_of_a_stream_are_read_one_by_one() {
        let stream =
            "event: link-up\ndata: {\"kind\":1}\nid: 1f-7\n\n: keep-alive\nid: 1f-9\n\nid: 1f";
        // The end is an incomplete message, which is not used.
        for part_len in [1, 7, stream.len()] {
            let mut parser = StreamParser::default();
            let parts = stream.as_bytes().chunks(part_len);
            let messages: Vec<_> = parts.flat_map(|part| parser.push(part).unwrap()).collect();
            let [first, second] = &messages[..] else { panic!("{messages:?}") };
            assert_eq!((first.event.as_str(), first.data.as_str()), ("link-up", "{\"kind\":1}"));
            assert_eq!(first.id.as_deref(), Some("1f-7"));
            assert_eq!((second.id.as_deref(), second.data.as_str()), (Some("1f-9"), ""));
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_an_error() {
        for part in ["x", "data: x\n"] {
            let mut parser = StreamParser::default();
            let mut parts = (0..=MESSAGE_BYTES_MAX).map(|_| parser.push(part.as_bytes()));
            assert!(parts.any(|result| result.is_err()), "{part}");
        }
    }

    #[test]
    fn a_refusal_is_final_and_a_lost_connection_is_not() {
        let failure = |status| ApiFailure { status, code: String::new(), message: String::new() };
        for status in [400, 401, 403, 404] {
            assert!(is_final(&failure(Some(status))), "{status}");
        }
        for status in [None, Some(429), Some(500), Some(503)] {
            assert!(!is_final(&failure(status)), "{status:?}");
        }
    }

    #[test]
    fn texts_do_not_control_the_terminal() {
        let event = serde_json::json!({"at_unix_s": 0, "text": "host learned: \u{1b}[2J"});
        assert_eq!(line(&event, false), "1970-01-01T00:00:00.000Z  host learned: \u{fffd}[2J\n");
    }
}
