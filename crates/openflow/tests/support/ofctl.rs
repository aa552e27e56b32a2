//! Prints many messages with one call of `ovs-ofctl`.

use std::path::Path;
use std::process::Command;

/// An echo request between messages, by which the output is split.
fn marker(n: usize) -> [u8; 8] {
    let n = u16::try_from(n).unwrap().to_be_bytes();
    [4, 2, 0, 8, 0x5e, 0xed, n[0], n[1]]
}

/// The output of `ovs-ofctl ofp-parse` for each of `messages`, including its error messages.
pub(crate) fn printed(file: &str, messages: &[Vec<u8>]) -> Vec<String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let mut bytes = vec![];
    for (n, message) in messages.iter().enumerate() {
        bytes.extend(message);
        bytes.extend(marker(n));
    }
    std::fs::write(&path, bytes).unwrap();
    let output = Command::new("ovs-ofctl").arg("ofp-parse").arg(&path).output();
    let output =
        output.unwrap_or_else(|e| panic!("ovs-ofctl: {e}; run `make setup`, which installs it"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rest = text.as_str();
    let outputs = (0..messages.len()).map(|n| {
        let end = format!("OFPT_ECHO_REQUEST (OF1.3) (xid=0x5eed{n:04x}): 0 bytes of payload\n");
        let (output, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{n}: {rest:.500}"));
        rest = after;
        output.to_owned()
    });
    outputs.collect()
}
