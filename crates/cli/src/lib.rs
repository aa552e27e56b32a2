//! The program `sluice`, and controllers with other applications: parses arguments, runs the subcommand, prints, exits.
//!
//! A crate with an application has a binary of one line: [`main`] with the [`Registry`] to which it has added its application. That
//! binary has all subcommands of `sluice`. `docs/first-application.md` describes how to write one.

mod advice;
mod api_client;
mod api_settings;
mod bench;
mod bench_publish;
mod compare;
mod completions;
mod config;
mod control_link;
mod declared_config;
mod declared_file;
mod decode;
mod doctor;
mod host;
mod log;
mod network;
mod operate;
mod passed_listeners;
mod paths;
mod pki;
mod policy;
mod registry;
mod run;
mod service_status;
mod show;
mod show_events;
mod signals;
mod startup_message;
mod state_dir;
mod static_entries;
mod study;
mod system_user;
mod token;
mod top;
mod trace;
mod version;
mod watch;

use std::hash::BuildHasher as _;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::config::{ConfigError, ConfigSources, Flags};

pub use crate::registry::Registry;

/// Uses huge pages, since the tables of a large network exceed what the TLB maps with small pages.
#[global_allocator]
static ALLOCATOR: sluice_io::HugePageAlloc = sluice_io::HugePageAlloc;

/// OpenFlow controller, with tools to measure controllers and to emulate networks.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, long_version = version::LONG, after_help = EXAMPLES)]
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
    /// Show the network of the running controller: switches, ports, links, hosts, flow entries
    Show(show::ShowArgs),
    /// Take a link out of service without losing a packet, or put it back
    Link(operate::LinkArgs),
    /// Put a host into quarantine, or release it
    Host(host::HostArgs),
    /// Set a port of a switch administratively up or down
    Port(operate::PortArgs),
    /// Delete the flow entries of one application, or with a cookie
    Clear(operate::ClearArgs),
    /// Copy packet-ins to Wireshark, a file or as JSON
    Capture(operate::CaptureArgs),
    /// Declare static flow entries of the running controller, which it keeps in the switches
    #[command(subcommand)]
    Flow(static_entries::FlowCommand),
    /// Replace flow entries of several switches: each packet is processed by the old or by the new ones
    Policy(policy::PolicyArgs),
    /// Declare static entries and names as a file says, and remove all others
    Apply(static_entries::ApplyArgs),
    /// Show what `apply` would change; the exit code is 0 if nothing, 1 if something, 2 after an error
    #[command(after_help = DIFF_NOTES)]
    Diff(static_entries::FileArgs),
    /// Show how a packet would travel through the flow tables of the running controller's network
    Trace(trace::TraceArgs),
    /// Show the busiest switches and ports of the running controller, live
    Top(top::TopArgs),
    #[command(about = "Measure a controller with emulated switches: throughput, latency, fairness")]
    Bench(Box<bench::BenchArgs>),
    #[command(about = "Measure many controllers with the same experiments, and write a report")]
    Study(study::StudyArgs),
    #[command(about = "Run the controller with an emulated network whose hosts ping each other")]
    Play(Box<network::PlayArgs>),
    #[command(about = "Emulate a network of switches and hosts for any controller")]
    Emu(network::EmuArgs),
    #[command(about = "Show OpenFlow messages of any version as text or JSON")]
    Decode(decode::DecodeArgs),
    #[command(about = "Emulate a control link with delay, jitter, rate, loss and a queue")]
    ControlLink(Box<control_link::ControlLinkArgs>),
    /// Make a laboratory authority, and certificates for the controller and switches
    #[command(subcommand)]
    Pki(pki::PkiCommand),
    /// Make, list and remove tokens, with which other machines use the API
    #[command(subcommand)]
    Token(token::TokenCommand),
    #[command(
        about = "Check what a controller on this machine needs, and say what to do about what is wrong"
    )]
    Doctor(Box<doctor::DoctorArgs>),
    /// Print the completions of a shell, for `source` or its folder of completions
    Completions(completions::CompletionsArgs),
    /// Write the manual pages into a folder
    Man(completions::ManArgs),
    /// Check and print the configuration, or print an example file
    #[command(subcommand)]
    Config(ConfigCommand),
}

const RUN_NOTES: &str = "\
A list is given with commas, or with one flag for each item: --listen 6653 --listen localhost:6633

`sluice config example` prints a configuration file with all keys and their meaning. A flag overrides
the environment (SLUICE_WORKERS__THREADS=2), and the environment overrides the file. SIGHUP reads all
of it again.";

const DIFF_NOTES: &str = "\
Exit codes, as those of diff(1): 0 if there is no difference, 1 if there are differences, 2 after an error.";

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show every key with its value and its origin: default, file, environment or flag
    Show(Flags),
    /// Print a configuration file with every key, its default and its meaning
    Example,
}

/// The exit code of an error at run time.
const EXIT_FAILURE: u8 = 1;

/// The exit code of an invalid command line or configuration; the same as clap's.
const EXIT_USAGE: u8 = 2;

/// Runs the program with the applications of `registry`: the main function of a binary.
pub fn main(registry: Registry) -> ExitCode {
    set_random_seed();
    if !registry.errors().is_empty() {
        registry.errors().iter().for_each(|error| print_error(&error.to_string()));
        return ExitCode::from(EXIT_FAILURE);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => return print_clap_message(&message),
    };
    match cli.command {
        Command::Run(flags) => {
            let sources = ConfigSources::new(flags, registry);
            match sources.load() {
                Ok(loaded) => run::run(sources, loaded),
                Err(errors) => print_config_errors(&errors),
            }
        }
        Command::Show(show) => exit_code(show.run()),
        Command::Top(top) => exit_code(top.run()),
        Command::Link(link) => exit_code(link.run().and_then(|text| write_stdout(&text))),
        Command::Host(host) => static_entries::report(host.run()),
        Command::Port(port) => exit_code(port.run().and_then(|text| write_stdout(&text))),
        Command::Clear(clear) => exit_code(clear.run().and_then(|text| write_stdout(&text))),
        Command::Capture(capture) => exit_code(capture.run()),
        Command::Flow(flow) => static_entries::report(flow.run()),
        Command::Policy(policy) => static_entries::report(policy.run()),
        Command::Apply(args) => static_entries::report(args.run()),
        Command::Diff(file) => static_entries::report_differences(file.diff()),
        Command::Trace(trace) => exit_code(trace.run().and_then(|text| write_stdout(&text))),
        Command::Bench(bench) => bench.run(),
        Command::Study(study) => study.run(),
        Command::Play(play) => play.run(&registry),
        Command::Emu(emu) => emu.run(),
        Command::Decode(decode) => decode.run(),
        Command::ControlLink(link) => link.run(),
        Command::Pki(pki) => exit_code(pki.run()),
        Command::Token(token) => exit_code(token.run(&registry)),
        Command::Doctor(doctor) => doctor.run(registry),
        Command::Completions(shell) => print(&shell.text(&mut Cli::command())),
        Command::Man(man) => exit_code(man.write(Cli::command())),
        Command::Config(ConfigCommand::Show(flags)) => {
            match ConfigSources::new(flags, registry).load() {
                Ok(loaded) => print(&config::show(&loaded)),
                Err(errors) => print_config_errors(&errors),
            }
        }
        Command::Config(ConfigCommand::Example) => {
            print(&(config::example() + &config::example_of_apps(&registry)))
        }
    }
}

/// Hashes keys that peers choose with random bits of this process, so that peers cannot make them collide.
#[expect(clippy::disallowed_types, reason = "the source of the random bits, from the system")]
fn set_random_seed() {
    let random = std::hash::RandomState::new();
    let [low, high] = [0, 1].map(|n| u128::from(random.hash_one(n)));
    let is_first = sluice_base::hash::set_seed(high << 64 | low);
    debug_assert!(is_first, "no map is made before");
}

/// Prints the help, the version, or what is wrong with the arguments.
fn print_clap_message(message: &clap::Error) -> ExitCode {
    match output_result(message.print().and_then(|()| std::io::stdout().flush())) {
        Ok(()) if message.use_stderr() => ExitCode::from(EXIT_USAGE),
        result => exit_code(result),
    }
}

/// Writes `text` to standard output and reports a failure, such as a full disk.
fn print(text: &str) -> ExitCode {
    exit_code(write_stdout(text))
}

/// Reports an error; the exit code of the process.
fn exit_code(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error);
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

/// Writes `text` to standard output. It is not an error if the reader has closed the pipe, as `head` does.
fn write_stdout(text: &str) -> Result<(), String> {
    write_to_reader(text).map(|_| ())
}

/// As [`write_stdout`]. Returns whether somebody reads it.
fn write_to_reader(text: &str) -> Result<bool, String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(output_error(&e)),
        Ok(()) => Ok(true),
    }
}

/// The result of writing to standard output.
fn output_result(result: std::io::Result<()>) -> Result<(), String> {
    match result {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(output_error(&e)),
        _ => Ok(()),
    }
}

/// The message for a failure to write to standard output.
fn output_error(error: &std::io::Error) -> String {
    format!("cannot write to standard output: {error}")
}

/// Writes an error to standard error.
fn print_error(error: &str) {
    // If it cannot be written, the exit code still shows the failure.
    let _ = writeln!(std::io::stderr(), "error: {error}");
}

fn print_config_errors(errors: &[ConfigError]) -> ExitCode {
    for error in errors {
        print_error(&error.to_string());
    }
    ExitCode::from(EXIT_USAGE)
}
