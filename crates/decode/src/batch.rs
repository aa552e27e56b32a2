//! Lines of JSON in, lines of JSON out.

use std::io::{self, BufRead, Read, Write};

use serde::Deserialize;

use crate::hex::unhex;
use crate::report::{Format, MessageCounts, Options, Reporter};

/// Bytes of a line that is read: the largest message has 131 070 hex digits.
const LINE_MAX: u64 = 1 << 20;

/// One line.
#[derive(Debug, Deserialize)]
struct BatchRequest {
    hex: String,
}

pub(crate) fn batch(
    mut input: impl BufRead,
    out: impl Write,
    options: Options,
) -> io::Result<MessageCounts> {
    let mut report = Reporter::new(out, Options { form: Format::Json, ..options });
    let mut line = Vec::new();
    loop {
        line.clear();
        input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == LINE_MAX {
            skip_line(&mut input)?;
            report.fault("a line of more than a mebibyte", None)?;
            continue;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<BatchRequest>(&line).map_err(|e| e.to_string()) {
            Ok(asked) => match unhex(&asked.hex) {
                Ok(bytes) => report.message(&bytes, None)?,
                Err(why) => report.fault(&why, None)?,
            },
            Err(why) => report.fault(&why, None)?,
        }
    }
    report.flush()?;
    Ok(report.tally)
}

/// Passes over the rest of a line.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let held = input.fill_buf()?;
        let end = held.iter().position(|&byte| byte == b'\n');
        let (len, done) = (end.map_or(held.len(), |end| end + 1), end.is_some() || held.is_empty());
        input.consume(len);
        if done {
            return Ok(());
        }
    }
}
