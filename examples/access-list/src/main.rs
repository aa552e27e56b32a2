//! A controller with all applications of Sluice, and `access-list`.

use std::process::ExitCode;

use access_list::AccessList;

fn main() -> ExitCode {
    sluice_cli::main(sluice_cli::Registry::default().with::<AccessList>())
}
