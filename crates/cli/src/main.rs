//! The binary: reads arguments and configuration, starts the parts, prints, exits.

mod advice;
mod bench;
mod config;
mod decode;
mod link;
mod log;
mod network;
mod paths;
mod run;
mod screen;
mod signals;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{Flags, Inputs, Problem};

/// The tables of a busy network are larger than a core's map of small pages.
#[global_allocator]
static ALLOCATOR: sluice_io::HugePageAlloc = sluice_io::HugePageAlloc;

/// An OpenFlow controller.
#[derive(Debug, Parser)]
#[command(name = "sluice", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the controller until it is told to stop.
    Run(Flags),
    Bench(Box<bench::Bench>),
    Play(Box<network::Play>),
    Emu(network::Emu),
    Decode(decode::Decode),
    Link(Box<link::Link>),
    /// Shows the configuration.
    #[command(subcommand)]
    Config(Config),
}

#[derive(Debug, Subcommand)]
enum Config {
    /// Every key with its value and where that comes from.
    Show(Flags),
    /// Every key with its default and what it is: a file to begin with.
    Example,
}

/// Something was wrong while running.
const FAILED: u8 = 1;

/// The command line or the configuration cannot be; as clap has it.
const REFUSED: u8 = 2;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(flags) => {
            let inputs = Inputs::new(flags);
            match inputs.load() {
                Ok(loaded) => run::run(inputs, loaded),
                Err(problems) => refuse(&problems),
            }
        }
        Command::Bench(bench) => bench.run(),
        Command::Play(play) => play.run(),
        Command::Emu(emu) => emu.run(),
        Command::Decode(decode) => decode.run(),
        Command::Link(link) => link.run(),
        Command::Config(Config::Show(flags)) => match Inputs::new(flags).load() {
            Ok(loaded) => print(&config::show(&loaded)),
            Err(problems) => refuse(&problems),
        },
        Command::Config(Config::Example) => print(&config::example()),
    }
}

/// Writes `text` to standard output. A reader that has gone is content with what it has.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    ExitCode::SUCCESS
}

/// Says on standard error why nothing is started.
fn complain(why: &str) {
    // If nobody hears it, the exit code still says it.
    let _ = writeln!(std::io::stderr(), "error: {why}");
}

fn refuse(problems: &[Problem]) -> ExitCode {
    for problem in problems {
        complain(&problem.to_string());
    }
    ExitCode::from(REFUSED)
}
