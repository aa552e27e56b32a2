//! The binary `sluice`: the controller with the applications that come with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluice_cli::main(sluice_cli::Registry::default())
}
