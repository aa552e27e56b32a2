//! A link that runs on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use sluice_io::netns::NetNs;
use sluice_io::tun::{Interface, Tun};
use sluice_io::{Waker, priority};

use super::control::{Both, Way};
use super::course::{Letter, Start};
use super::error::Error;
use super::plan::{End, Ends, Plan};
use super::relay::Relay;
use super::report::Report;
use super::series::Sink;
use super::settings::Change;
use super::tuns::Tuns;
use super::units::Share;

/// Letters that wait to be read.
const LETTERS_MAX: usize = 64;

/// A link that is open, until [`close`](Self::close) or the end of the process.
#[derive(Debug)]
pub struct Link {
    handle: Handle,
    thread: JoinHandle<io::Result<Report>>,
    listening: Option<SocketAddr>,
    first: io::Result<()>,
}

/// A way to talk to a link, from any thread.
#[derive(Debug, Clone)]
pub struct Handle {
    letters: SyncSender<Letter>,
    waker: Waker,
    /// `None` for a relay.
    tuns: Option<Arc<Both<Tun>>>,
}

/// What the thread runs.
enum Body {
    Tuns(Box<Tuns>),
    Relay(Box<Relay>),
}

impl Body {
    fn run(self) -> io::Result<Report> {
        match self {
            Self::Tuns(tuns) => tuns.run(),
            Self::Relay(relay) => relay.run(),
        }
    }
}

impl Link {
    /// Opens it and starts its thread. The `series` gets a row for every 10 ms; `on_break` is called by the thread
    /// when it ends without having been told to.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(
        plan: &Plan,
        series: Option<Sink>,
        on_break: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        plan.check()?;
        let (letters, received) = sync_channel(LETTERS_MAX);
        let start = Start { settings: plan.settings, seed: plan.seed, series, letters: received };
        let (mut tuns, mut listening) = (None, None);
        let (body, waker) = match &plan.ends {
            Ends::Tuns { ends, mtu } => {
                let waker = Waker::new().map_err(Error::System)?;
                let made = Arc::new(devices(ends, *mtu)?);
                tuns = Some(Arc::clone(&made));
                (Body::Tuns(Box::new(Tuns::new(made, waker.clone(), start))), waker)
            }
            Ends::Relay { listen, connect } => {
                let relay = Relay::new(*listen, *connect, start)?;
                listening = Some(relay.addr());
                let waker = relay.waker();
                (Body::Relay(Box::new(relay)), waker)
            }
        };
        let (rank, is_first) = sync_channel(1);
        let run = move || {
            let mut broken = OnBreak(Some(on_break));
            priority::minimize_timer_slack();
            // Who opens the link waits for this.
            let _ = rank.send(priority::use_realtime_priority());
            let ended = body.run();
            if ended.is_ok() {
                broken.0 = None;
            }
            ended
        };
        let thread = thread::Builder::new().name("link".to_owned()).spawn(run);
        let thread = thread.map_err(Error::System)?;
        let first = is_first.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        Ok(Self { handle: Handle { letters, waker, tuns }, thread, listening, first })
    }

    /// Closes it; what it did.
    ///
    /// # Errors
    /// `Broke` if it had ended by itself.
    ///
    /// # Panics
    /// If its thread did.
    pub fn close(self) -> Result<Report, Error> {
        self.handle.tell(Letter::Stop);
        let ended = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map(|report| self.handle.complete(report)).map_err(Error::Broke)
    }

    /// A way to talk to it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether its thread goes before others.
    ///
    /// # Errors
    /// Why it does not: packets leave later than they should when the machine is busy.
    pub fn first(&self) -> &io::Result<()> {
        &self.first
    }

    /// Where a relay takes connections.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.listening
    }
}

impl Handle {
    /// Changes settings while it runs.
    ///
    /// # Errors
    /// `LossOfRelay`.
    pub fn set(&self, changes: Both<Option<Change>>) -> Result<(), Error> {
        let loses =
            |way| matches!(changes.at(way), Some(Change::Loss(loss)) if *loss > Share::NONE);
        if self.tuns.is_none() && Way::BOTH.into_iter().any(loses) {
            return Err(Error::LossOfRelay);
        }
        self.tell(Letter::Set(changes));
        Ok(())
    }

    /// What it has done so far; `None` if it has ended.
    pub fn show(&self) -> Option<Report> {
        let (to, answer) = sync_channel(1);
        self.tell(Letter::Show(to));
        answer.recv().ok().map(|report| self.complete(report))
    }

    fn tell(&self, letter: Letter) {
        // A link that has ended needs no letter.
        if self.letters.send(letter).is_ok() {
            self.waker.wake();
        }
    }

    /// Adds what only the system knows.
    fn complete(&self, mut report: Report) -> Report {
        if let Some(tuns) = &self.tuns {
            for way in Way::BOTH {
                report.ways.at_mut(way).missed = tuns.at(way).dropped().ok();
            }
        }
        report
    }
}

fn devices(ends: &Both<End>, mtu: u16) -> Result<Both<Tun>, Error> {
    let place = |way: Way| {
        let name = ends.at(way).place.as_deref();
        let opened = name.map_or_else(NetNs::here, NetNs::open);
        opened.map_err(|e| Error::Namespace(way, name.unwrap_or("of this process").to_owned(), e))
    };
    let (up, down) = (place(Way::Up)?, place(Way::Down)?);
    if up.is_same(&down).map_err(Error::System)? {
        return Err(Error::OneNamespace);
    }
    let device = |place: NetNs, End { device, address, .. }: &End| {
        let interface = Interface { name: device.clone(), address: *address, mtu };
        Tun::new(place, &interface).map_err(Error::Tun)
    };
    Ok(Both { up: device(up, &ends.up)?, down: device(down, &ends.down)? })
}

/// Calls what it holds when it is dropped, by a panic too.
struct OnBreak<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnBreak<F> {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}
