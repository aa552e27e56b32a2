//! A link in real time, on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use sluice_io::netns::NetNs;
use sluice_io::tun::{Interface, Tun};
use sluice_io::{Wake, Waker, priority};

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

/// Requests that may wait for the link's thread.
const REQUESTS_MAX: usize = 64;

/// An open link; it runs until [`close`](Self::close) or the end of the process.
#[derive(Debug)]
pub struct RunningLink {
    handle: LinkHandle,
    thread: JoinHandle<io::Result<LinkReport>>,
    listen_addr: Option<SocketAddr>,
    realtime_priority: io::Result<()>,
}

/// A handle to a running link, usable from any thread.
#[derive(Debug, Clone)]
pub struct LinkHandle {
    requests: SyncSender<LinkRequest>,
    waker: Waker,
    /// `None` for a TCP proxy.
    tun_devices: Option<Arc<PerDirection<Tun>>>,
}

/// What the link's thread runs.
enum LinkDriver {
    Tun(Box<TunLink>),
    TcpProxy(Box<TcpProxy>),
}

impl LinkDriver {
    fn run(self) -> io::Result<LinkReport> {
        match self {
            Self::Tun(tun_devices) => tun_devices.run(),
            Self::TcpProxy(proxy) => proxy.run(),
        }
    }
}

impl RunningLink {
    /// Opens the link and starts its thread. `time_series` gets a row every 10 ms; the thread calls `on_failure` if it
    /// ends without a request to stop.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(
        config: &LinkConfig,
        time_series: Option<TimeSeriesWriter>,
        on_failure: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        config.validate()?;
        let (requests, received) = sync_channel(REQUESTS_MAX);
        let start = DuplexConfig {
            impairments: config.impairments,
            seed: config.seed,
            time_series,
            requests: received,
        };
        let (mut tun_devices, mut listen_addr) = (None, None);
        let (body, waker) = match &config.endpoints {
            LinkEndpoints::Tun { endpoints, mtu } => {
                let waker = Waker::new().map_err(Error::System)?;
                let devices_made = Arc::new(devices(endpoints, *mtu)?);
                tun_devices = Some(Arc::clone(&devices_made));
                (LinkDriver::Tun(Box::new(TunLink::new(devices_made, waker.clone(), start))), waker)
            }
            LinkEndpoints::TcpProxy { listen, connect } => {
                let proxy = TcpProxy::new(*listen, *connect, start)?;
                listen_addr = Some(proxy.addr());
                let waker = proxy.waker();
                (LinkDriver::TcpProxy(Box::new(proxy)), waker)
            }
        };
        let (priority_set, priority_result) = sync_channel(1);
        let run = move || {
            let mut failure_guard = OnFailure(Some(on_failure));
            priority::minimize_timer_slack();
            // `open` waits for this result.
            let _ = priority_set.send(priority::use_realtime_priority());
            let ended = body.run();
            if ended.is_ok() {
                failure_guard.0 = None;
            }
            ended
        };
        let thread = thread::Builder::new().name("link".to_owned()).spawn(run);
        let thread = thread.map_err(Error::System)?;
        let realtime_priority =
            priority_result.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        Ok(Self {
            handle: LinkHandle { requests, waker, tun_devices },
            thread,
            listen_addr,
            realtime_priority,
        })
    }

    /// Closes the link and returns its final report.
    ///
    /// # Errors
    /// `Failed` if the link had failed before.
    ///
    /// # Panics
    /// If the link's thread panicked.
    pub fn close(self) -> Result<LinkReport, Error> {
        self.handle.send(LinkRequest::Stop);
        let ended = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map(|report| self.handle.with_drop_counts(report)).map_err(Error::Failed)
    }

    /// A handle for other threads.
    pub fn handle(&self) -> LinkHandle {
        self.handle.clone()
    }

    /// Whether the link's thread has real-time priority.
    ///
    /// # Errors
    /// Why it has not; then packets leave late while the machine is busy.
    pub fn realtime_priority(&self) -> &io::Result<()> {
        &self.realtime_priority
    }

    /// The address on which a TCP proxy accepts connections.
    pub fn listen_addr(&self) -> Option<SocketAddr> {
        self.listen_addr
    }
}

impl LinkHandle {
    /// Changes impairments while the link runs.
    ///
    /// # Errors
    /// `LossWithTcpProxy`.
    pub fn change(&self, changes: PerDirection<Option<ImpairmentChange>>) -> Result<(), Error> {
        let loses = |direction| matches!(changes.get(direction), Some(ImpairmentChange::Loss(loss)) if *loss > LossRatio::NONE);
        if self.tun_devices.is_none() && Direction::ALL.into_iter().any(loses) {
            return Err(Error::LossWithTcpProxy);
        }
        self.send(LinkRequest::Change(changes));
        Ok(())
    }

    /// A report of the link so far; `None` if the link has ended.
    pub fn report(&self) -> Option<LinkReport> {
        let (to, answer) = sync_channel(1);
        self.send(LinkRequest::Report(to));
        answer.recv().ok().map(|report| self.with_drop_counts(report))
    }

    fn send(&self, request: LinkRequest) {
        // A link that has ended needs no requests.
        if self.requests.send(request).is_ok() {
            self.waker.wake();
        }
    }

    /// Adds the drop counters of the TUN devices, which only the system knows.
    fn with_drop_counts(&self, mut report: LinkReport) -> LinkReport {
        if let Some(tun_devices) = &self.tun_devices {
            for direction in Direction::ALL {
                report.directions.get_mut(direction).dropped_before_link =
                    tun_devices.get(direction).dropped().ok();
            }
        }
        report
    }
}

fn devices(ends: &PerDirection<LinkEndpoint>, mtu: u16) -> Result<PerDirection<Tun>, Error> {
    let namespace = |direction: Direction| {
        let name = ends.get(direction).namespace.as_deref();
        let opened = name.map_or_else(NetNs::current, NetNs::open);
        opened.map_err(|e| {
            Error::Namespace(direction, name.unwrap_or("of this process").to_owned(), e)
        })
    };
    let (up, down) = (namespace(Direction::Up)?, namespace(Direction::Down)?);
    if up.is_same(&down).map_err(Error::System)? {
        return Err(Error::SameNamespace);
    }
    let device = |namespace: NetNs, LinkEndpoint { device, address, .. }: &LinkEndpoint| {
        let interface = Interface { name: device.clone(), address: *address, mtu };
        Tun::new(namespace, &interface).map_err(Error::Tun)
    };
    Ok(PerDirection { up: device(up, &ends.up)?, down: device(down, &ends.down)? })
}

/// Calls the function that it holds when it is dropped, also by a panic.
struct OnFailure<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnFailure<F> {
    fn drop(&mut self) {
        if let Some(callback) = self.0.take() {
            callback();
        }
    }
}
