//! Decoding messages with os-ken, an OpenFlow library in Python.

use std::fmt::Write;
use std::process::Command;

use crate::process::{output_of, workspace};
use crate::test_env::TestEnv;

/// Names of the types of `messages`, as os-ken decodes them.
///
/// # Panics
/// When os-ken encodes a message differently; the panic message says which.
#[track_caller]
pub fn message_types_read_by_osken(env: &TestEnv, messages: &[Vec<u8>]) -> Vec<String> {
    let file = env.write("messages.hex", messages.iter().fold(String::new(), hex_line));
    // scripts/setup.sh creates the Python environment, and names its version.
    let script = r#"exec .cache/osken-*/bin/python tests/osken.py <"$0""#;
    let mut osken = Command::new("sh");
    osken.current_dir(workspace()).args(["-c", script]).arg(file);
    output_of(&mut osken).lines().map(str::to_owned).collect()
}

fn hex_line(mut lines: String, message: &Vec<u8>) -> String {
    for byte in message {
        // Writing to a string cannot fail.
        _ = write!(lines, "{byte:02x}");
    }
    lines.push('\n');
    lines
}
