//! The opinion of os-ken, a controller in Python.

use std::fmt::Write;
use std::process::Command;

use crate::room::Room;
use crate::shell::{output_of, workspace};

/// The kinds of `messages`, named as in the specification, all of them read by os-ken.
///
/// # Panics
/// When it disagrees with a byte of a message; its words are in the message.
#[track_caller]
pub fn kinds_read_by_osken(room: &Room, messages: &[Vec<u8>]) -> Vec<String> {
    let file = room.write("messages.hex", &messages.iter().fold(String::new(), hex_line));
    // The environment is made by scripts/setup.sh, which names its version.
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
