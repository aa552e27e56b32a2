//! Answers packet-ins inside the kernel, by a BPF program (`bpf/answers.bpf.c`).
//!
//! The program runs when a packet-in arrives, on the processor that received it, and sends the answer back on the same connection. It decides nothing: it repeats what the
//! application of the worker has decided. The worker publishes the hosts of a switch and the form of the answers; the program answers
//! packet-ins between published hosts that are at the ports where they were, and passes everything else to the worker.
//!
//! # Who answers
//! Each connection has a gate ([`Session`]). While it is open, the program answers if nothing that was passed to the worker waits for it:
//! the gate holds the number of bytes that the worker has received, and the program compares it with the number that it has passed. A
//! socket buffer goes to the worker as a whole, so that nothing overtakes it, and the next ones follow until the worker has answered and
//! opens the gate again. Under load, something always waits for the worker, which then answers everything, in bursts.
//!
//! The worker closes the gate before it writes to the connection or changes the hosts of it, and waits until the program does not run for
//! it. So only one of both writes, and transaction ids continue.
//!
//! The worker need not wait for a connection to become readable, which it does for a moment with each answer of the program, too: it can have
//! the program announce when it passes something on ([`Session::request_announcement`], [`WorkerAnswers::next_announced`]).
//!
//! # Reports
//! If an application has to know of each answer, its form has the rule [`AnswerRule::Paths`]: the program writes a [`Report`] for each into a ring
//! buffer of the worker, before it answers, and answers nothing that it has no room to report. When more than 1024 wait, it wakes the worker
//! ([`WorkerAnswers::reports`]). After the answer, further packet-ins between
//! the same two hosts go to the worker for a time that the form says, since flow entries for them are in flight; the worker
//! [holds](WorkerAnswers::hold) pairs of hosts that it has answered itself.
//!
//! # Memory
//! All is allocated when the program is loaded: see [`Limits`]. Answers on their way are in the send buffers of
//! the sockets: the program passes to the worker what it has no room there for, and everything while more than 16 KiB of answers, or 16 buffers
//! with answers, wait to be sent.

mod epoch;
mod error;
mod host_table;
mod program;
mod session;
mod syn_filter;
mod worker;

pub use error::KernelError;
pub use program::{IS_BUILT, KERNEL_MIN, KernelAnswers, Limits};
pub use session::{AnswerForm, AnswerRule, Answered, Closed, Session, Waits};
pub use syn_filter::{SynFilter, SynLimit};
pub use worker::{RelayQueue, Report, WorkerAnswers};
