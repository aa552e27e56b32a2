//! The binary: parses arguments, runs the subcommand, prints, exits.

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

/// Uses huge pages, since the tables of a large network exceed what the TLB maps with small pages.
#[global_allocator]
static ALLOCATOR: sluice_io::HugePageAlloc = sluice_io::HugePageAlloc;

/// OpenFlow controller, with tools to measure controllers and to emulate networks.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  sluice run                  Run the controller on ports 6653 and 6633
  sluice play                 Try it without switches: a controller and an emulated network
  sluice bench                Measure a controller on this machine
  sluice decode dump.pcap     Show the OpenFlow messages of a capture

`sluice COMMAND --help` explains the options of a command.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller until SIGINT or SIGTERM
    #[command(after_help = RUN_NOTES)]
    Run(Flags),
    #[command(about = "Measure a controller with emulated switches: throughput, latency, fairness")]
    Bench(Box<bench::Bench>),
    #[command(about = "Run the controller with an emulated network, and show its pings")]
    Play(Box<network::Play>),
    #[command(about = "Emulate a network of switches and hosts against a controller")]
    Emu(network::Emu),
    #[command(about = "Show OpenFlow messages of any version as text or JSON")]
    Decode(decode::Decode),
    #[command(about = "Emulate a control link with delay, jitter, rate, loss and a queue")]
    Link(Box<link::Link>),
    /// Show the configuration, or an example file
    #[command(subcommand)]
    Config(Config),
}

const RUN_NOTES: &str = "\
A list is given with commas, or with one flag for each item: --listen 6653 --listen localhost:6633

`sluice config example` prints a configuration file with all keys and what they mean. A flag overrides
the environment (SLUICE_WORKERS__THREADS=2), and the environment overrides the file. SIGHUP reads all
of it again.";

#[derive(Debug, Subcommand)]
enum Config {
    /// Show every key with its value and its origin: default, file, environment or flag
    Show(Flags),
    /// Print a configuration file with every key, its default and its meaning
    Example,
}

/// The exit code of an error at run time.
const EXIT_FAILURE: u8 = 1;

/// The exit code of an invalid command line or configuration; the same as clap's.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(flags) => {
            let inputs = Inputs::new(flags);
            match inputs.load() {
                Ok(loaded) => run::run(inputs, loaded),
                Err(problems) => print_problems(&problems),
            }
        }
        Command::Bench(bench) => bench.run(),
        Command::Play(play) => play.run(),
        Command::Emu(emu) => emu.run(),
        Command::Decode(decode) => decode.run(),
        Command::Link(link) => link.run(),
        Command::Config(Config::Show(flags)) => match Inputs::new(flags).load() {
            Ok(loaded) => print(&config::show(&loaded)),
            Err(problems) => print_problems(&problems),
        },
        Command::Config(Config::Example) => print(&config::example()),
    }
}

/// Writes `text` to standard output. It is no error if the reader has closed it.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    ExitCode::SUCCESS
}

/// Writes an error to standard error.
fn print_error(error: &str) {
    // If it cannot be written, the exit code still says it.
    let _ = writeln!(std::io::stderr(), "error: {error}");
}

fn print_problems(problems: &[Problem]) -> ExitCode {
    for problem in problems {
        print_error(&problem.to_string());
    }
    ExitCode::from(EXIT_USAGE)
}
