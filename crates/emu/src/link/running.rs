//! A link that runs on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use sluice_io::netns::NetNs;
use sluice_io::tun::{Interface, Tun};
use sluice_io::{Waker, priority};

use super::command::{Direction, PerDirection};
use super::config::{LinkConfig, LinkEndpoint, LinkEndpoints};
use super::duplex::{DuplexConfig, LinkRequest};
use super::error::Error;
use super::impairments::ImpairmentChange;
use super::report::LinkReport;
use super::tcp_proxy::TcpProxy;
use super::time_series::TimeSeriesWriter;
use super::tun_link::TunLink;
use super::units::LossRatio;

/// Letters that wait to be read.
const REQUESTS_MAX: usize = 64;

/// A link that is open, until [`close`](Self::close) or the end of the process.
#[derive(Debug)]
pub struct RunningLink {
    handle: LinkHandle,
    thread: JoinHandle<io::Result<LinkReport>>,
    listen_addr: Option<SocketAddr>,
    realtime_priority: io::Result<()>,
}

/// A way to talk to a link, from any thread.
#[derive(Debug, Clone)]
pub struct LinkHandle {
    requests: SyncSender<LinkRequest>,
    waker: Waker,
    /// `None` for a relay.
    tuns: Option<Arc<PerDirection<Tun>>>,
}

/// What the thread runs.
enum LinkDriver {
    Tun(Box<TunLink>),
    TcpProxy(Box<TcpProxy>),
}

impl LinkDriver {
    fn run(self) -> io::Result<LinkReport> {
        match self {
            Self::Tun(tuns) => tuns.run(),
            Self::TcpProxy(relay) => relay.run(),
        }
    }
}

impl RunningLink {
    /// Opens it and starts its thread. The `series` gets a row for every 10 ms; `on_break` is called by the thread
    /// when it ends without having been told to.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(
        config: &LinkConfig,
        series: Option<TimeSeriesWriter>,
        on_break: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        config.validate()?;
        let (requests, received) = sync_channel(REQUESTS_MAX);
        let start = DuplexConfig {
            impairments: config.impairments,
            seed: config.seed,
            time_series: series,
            requests: received,
        };
        let (mut tuns, mut listen_addr) = (None, None);
        let (body, waker) = match &config.endpoints {
            LinkEndpoints::Tun { endpoints, mtu } => {
                let waker = Waker::new().map_err(Error::System)?;
                let made = Arc::new(devices(endpoints, *mtu)?);
                tuns = Some(Arc::clone(&made));
                (LinkDriver::Tun(Box::new(TunLink::new(made, waker.clone(), start))), waker)
            }
            LinkEndpoints::TcpProxy { listen, connect } => {
                let relay = TcpProxy::new(*listen, *connect, start)?;
                listen_addr = Some(relay.addr());
                let waker = relay.waker();
                (LinkDriver::TcpProxy(Box::new(relay)), waker)
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
        let realtime_priority =
            is_first.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        Ok(Self {
            handle: LinkHandle { requests, waker, tuns },
            thread,
            listen_addr,
            realtime_priority,
        })
    }

    /// Closes it; what it did.
    ///
    /// # Errors
    /// `Broke` if it had ended by itself.
    ///
    /// # Panics
    /// If its thread did.
    pub fn close(self) -> Result<LinkReport, Error> {
        self.handle.send(LinkRequest::Stop);
        let ended = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map(|report| self.handle.with_drop_counts(report)).map_err(Error::Failed)
    }

    /// A way to talk to it.
    pub fn handle(&self) -> LinkHandle {
        self.handle.clone()
    }

    /// Whether its thread goes before others.
    ///
    /// # Errors
    /// Why it does not: packets leave later than they should when the machine is busy.
    pub fn realtime_priority(&self) -> &io::Result<()> {
        &self.realtime_priority
    }

    /// Where a relay takes connections.
    pub fn listen_addr(&self) -> Option<SocketAddr> {
        self.listen_addr
    }
}

impl LinkHandle {
    /// Changes settings while it runs.
    ///
    /// # Errors
    /// `LossWithTcpProxy`.
    pub fn change(&self, changes: PerDirection<Option<ImpairmentChange>>) -> Result<(), Error> {
        let loses = |way| matches!(changes.get(way), Some(ImpairmentChange::Loss(loss)) if *loss > LossRatio::NONE);
        if self.tuns.is_none() && Direction::ALL.into_iter().any(loses) {
            return Err(Error::LossWithTcpProxy);
        }
        self.send(LinkRequest::Change(changes));
        Ok(())
    }

    /// What it has done so far; `None` if it has ended.
    pub fn report(&self) -> Option<LinkReport> {
        let (to, answer) = sync_channel(1);
        self.send(LinkRequest::Report(to));
        answer.recv().ok().map(|report| self.with_drop_counts(report))
    }

    fn send(&self, request: LinkRequest) {
        // A link that has ended needs no request.
        if self.requests.send(request).is_ok() {
            self.waker.wake();
        }
    }

    /// Adds what only the system knows.
    fn with_drop_counts(&self, mut report: LinkReport) -> LinkReport {
        if let Some(tuns) = &self.tuns {
            for way in Direction::ALL {
                report.directions.get_mut(way).dropped_before_link = tuns.get(way).dropped().ok();
            }
        }
        report
    }
}

fn devices(ends: &PerDirection<LinkEndpoint>, mtu: u16) -> Result<PerDirection<Tun>, Error> {
    let place = |way: Direction| {
        let name = ends.get(way).namespace.as_deref();
        let opened = name.map_or_else(NetNs::here, NetNs::open);
        opened.map_err(|e| Error::Namespace(way, name.unwrap_or("of this process").to_owned(), e))
    };
    let (up, down) = (place(Direction::Up)?, place(Direction::Down)?);
    if up.is_same(&down).map_err(Error::System)? {
        return Err(Error::SameNamespace);
    }
    let device = |place: NetNs, LinkEndpoint { device, address, .. }: &LinkEndpoint| {
        let interface = Interface { name: device.clone(), address: *address, mtu };
        Tun::new(place, &interface).map_err(Error::Tun)
    };
    Ok(PerDirection { up: device(up, &ends.up)?, down: device(down, &ends.down)? })
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
