//! Batch mode: lines of JSON in, lines of JSON out.

use std::io::{self, BufRead, BufReader, Read, Write};

use serde::Deserialize;

use crate::hex;
use crate::report::Reporter;

/// Maximum length of a line in bytes. The longest message has 131 070 hex digits.
const LINE_MAX: u64 = 1 << 20;

/// One line of input.
#[derive(Debug, Deserialize)]
struct BatchRequest {
    hex: String,
}

/// Answers each line of `input` with a line of JSON.
pub(crate) fn decode<W: Write>(input: impl Read, report: &mut Reporter<W>) -> io::Result<()> {
    report.set_json();
    let (mut input, mut line) = (BufReader::new(input), Vec::new());
    loop {
        // A program that sends a line and waits for the answer receives it at once.
        if input.buffer().is_empty() {
            report.flush()?;
        }
        line.clear();
        input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == LINE_MAX {
            skip_line(&mut input)?;
            let error = format!("the line is longer than {LINE_MAX} bytes");
            report.report_error(&error, None)?;
            continue;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<BatchRequest>(&line) {
            Ok(request) => match hex::decode(&request.hex) {
                Ok(bytes) => report.report_message(&bytes, None)?,
                Err(error) => report.report_error(&error, None)?,
            },
            Err(e) => {
                let error = format!("expected a line {{\"hex\": \"...\"}}: {e}");
                report.report_error(&error, None)?;
            }
        }
    }
    report.flush()
}

/// Skips the rest of a line.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffered = input.fill_buf()?;
        let end = buffered.iter().position(|&byte| byte == b'\n');
        let len = end.map_or(buffered.len(), |end| end + 1);
        let is_done = end.is_some() || buffered.is_empty();
        input.consume(len);
        if is_done {
            return Ok(());
        }
    }
}
