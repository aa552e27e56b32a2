//! Any line as a flow, a group or a meter, as people write them: no panic, a fault has a column in it, and what is read
//! and written in the same syntax is read again the same.
#![no_main]

use core::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use sluice_openflow::text::{TextError, caret};
use sluice_openflow::{FlowMod, FlowModCommand, GroupCommand, GroupMod, MeterCommand, MeterMod};

fuzz_target!(|input: &[u8]| {
    // What it is and which command it is of, then the line.
    let [what, line @ ..] = input else { return };
    let Ok(line) = core::str::from_utf8(line) else { return };
    match what {
        0..128 => {
            let command = FlowModCommand(what % 5);
            twice(line, |line| FlowMod::from_text(line, command), FlowMod::to_text);
        }
        128..192 => {
            let command = GroupCommand((what % 6).into());
            twice(line, |line| GroupMod::from_text(line, command), GroupMod::to_text);
        }
        192.. => {
            let command = MeterCommand((what % 3).into());
            twice(line, |line| MeterMod::from_text(line, command), MeterMod::to_text);
        }
    }
});

fn twice<T: Debug + PartialEq>(
    line: &str,
    read: impl Fn(&str) -> Result<T, TextError>,
    print: impl Fn(&T) -> String,
) {
    match read(line) {
        Ok(first) => {
            let text = print(&first);
            assert_eq!(read(&text).as_ref(), Ok(&first), "{text}");
        }
        Err(fault) => {
            assert!((1..=line.chars().count() + 1).contains(&fault.column), "{fault}");
            assert!(caret(line, &fault).starts_with(line));
        }
    }
}
