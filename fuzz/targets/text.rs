//! Any line as a flow, as people write them: no panic, a fault has a column in it, and what is read and written in the
//! same syntax is read again the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::model::text::caret;
use sluice_wire::model::{FlowMod, FlowModCommand};

fuzz_target!(|input: &[u8]| {
    // Which command it is of, then the line.
    let [command, line @ ..] = input else { return };
    let Ok(line) = core::str::from_utf8(line) else { return };
    let command = FlowModCommand(command % 5);
    match FlowMod::from_text(line, command) {
        Ok(flow) => {
            let again = flow.to_text();
            assert_eq!(FlowMod::from_text(&again, command).as_ref(), Ok(&flow), "{again}");
        }
        Err(fault) => {
            assert!((1..=line.chars().count() + 1).contains(&fault.column), "{fault}");
            assert!(caret(line, &fault).starts_with(line));
        }
    }
});
