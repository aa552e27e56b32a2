//! A server whose controller has no switches, and a client that sends what the tests want.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sluice_base::metrics::{MetricSample, MetricsSource};
use sluice_io::clock;
use sluice_northbound::tokens::{Role, Token, TokenFile};
use sluice_northbound::{AccessConfig, Config, Listeners, Server};
use sluice_openflow::DatapathId;
use sluice_sdk::view::{ViewPublisher, ViewSubscription};
use sluice_sdk::{
    Answer, Capture, CaptureFilter, CaptureSender, Controller, OnAnswer, Request, SwitchSession,
};

#[derive(Debug)]
struct NoMetrics;

impl MetricsSource for NoMetrics {
    fn collect(&self, _: &mut dyn FnMut(MetricSample)) {}
}

struct NoSwitches;

impl Controller for NoSwitches {
    fn request(&self, _: DatapathId, _: Request, on_answer: OnAnswer) {
        on_answer(Answer::NotConnected);
    }

    fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
        ViewPublisher::new(notify).1
    }

    fn switches(&self) -> Vec<SwitchSession> {
        vec![]
    }

    fn capture(
        &self,
        filter: CaptureFilter,
        notify: Box<dyn Fn() + Send + Sync>,
    ) -> Option<Capture> {
        Some(CaptureSender::new(filter, notify).1)
    }
}

/// A folder that is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("sluice-access-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Adds a token to `tokens.json`; its text.
    pub(crate) fn add_token(&self, name: &str, role: Role, expires: Option<Duration>) -> String {
        // Made a day ago.
        let made = clock::since_epoch().checked_sub(Duration::from_secs(86_400)).unwrap();
        let (text, token) = Token::generate(name, role, made, expires).unwrap();
        TokenFile::update(&self.file("tokens.json"), |tokens| {
            tokens.push(token);
            Ok(())
        })
        .unwrap();
        text
    }

    /// Removes all tokens from `tokens.json`.
    pub(crate) fn remove_tokens(&self) {
        TokenFile::update(&self.file("tokens.json"), |tokens| {
            tokens.clear();
            Ok(())
        })
        .unwrap();
    }

    pub(crate) fn tokens(&self) -> TokenFile {
        TokenFile::load(&self.file("tokens.json")).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn start(config: Config) -> Server {
    Listeners::open(config).unwrap().serve(Arc::new(NoMetrics), Arc::new(NoSwitches)).unwrap()
}

/// A server on a port of this machine.
pub(crate) fn with_access(access: AccessConfig) -> Server {
    start(Config { access, ..Config::on(([127, 0, 0, 1], 0).into()) })
}

pub(crate) fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

pub(crate) fn connect_unix(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Sends bytes; status and text of the answer.
pub(crate) fn exchange(mut stream: impl Read + Write, request: &str) -> (u16, String) {
    // The server may answer and close before it has read all of it.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or(0), answer)
}

/// Sends a request with these header lines, each with its end.
pub(crate) fn request(server: &Server, line: &str, headers: &str) -> (u16, String) {
    let request = format!("{line} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
    exchange(connect(server), &request)
}

/// The status of the answer, which may have no end.
pub(crate) fn status_of(server: &Server, line: &str, headers: &str) -> u16 {
    let mut stream = connect(server);
    write!(stream, "{line} HTTP/1.1\r\n{headers}\r\n").unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    str::from_utf8(&start).unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}
