//! The northbound interface of a controller, over HTTP.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sluice_io::clock;

use crate::definition::{ControllerRow, HttpCount, Northbound, PathRequest};
use crate::process::Placeholders;

/// Time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest body of a response.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// Length of the part of a response that an error quotes.
const QUOTED_CHARS: usize = 200;

/// Requests to the northbound interface of one controller.
#[derive(Debug, Clone)]
pub(super) struct NorthboundClient {
    agent: ureq::Agent,
    row: Arc<Northbound>,
    placeholders: Placeholders,
}

/// The size of the topology that a controller has discovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiscoveredTopology {
    pub(super) switches: usize,
    /// Links between switches, each direction apart.
    pub(super) links: usize,
}

impl NorthboundClient {
    /// A client for a controller.
    ///
    /// # Errors
    /// It has no northbound interface.
    pub(super) fn new(row: &ControllerRow, placeholders: &Placeholders) -> Result<Self, String> {
        let Some(northbound) = &row.northbound else {
            return Err("the controller's file has no [northbound]".to_owned());
        };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(REQUEST_TIMEOUT))
            .http_status_as_error(false)
            // The controller is on this machine.
            .proxy(None)
            .build();
        Ok(Self {
            agent: config.into(),
            row: Arc::new(northbound.clone()),
            placeholders: placeholders.clone(),
        })
    }

    /// A client with connections of its own.
    pub(super) fn with_own_connections(&self) -> Self {
        Self { agent: self.agent.config().clone().into(), ..self.clone() }
    }

    /// What the controller has discovered.
    pub(super) fn topology(&self) -> Result<DiscoveredTopology, String> {
        let directions = if self.row.members_per_link == 1 { 2 } else { 1 };
        Ok(DiscoveredTopology {
            switches: self.count(&self.row.switches)?,
            links: directions * self.count(&self.row.links)?,
        })
    }

    fn count(&self, request: &HttpCount) -> Result<usize, String> {
        let url = self.placeholders.fill(&request.url);
        let body = self.send("GET", &url, "", request.login.as_deref())?;
        count(&body, &request.at).map_err(|why| format!("{url}: {why}"))
    }

    /// The request that installs a path.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn path(&self) -> Result<&PathRequest, String> {
        let missing = || "the controller's file has no [northbound.path]".to_owned();
        self.row.path.as_ref().ok_or_else(missing)
    }

    /// A text with the placeholders of the controller replaced.
    pub(super) fn fill(&self, text: &str) -> String {
        self.placeholders.fill(text)
    }

    /// Sends a request with a JSON body, unless that is empty; returns the body of the response.
    ///
    /// # Errors
    /// No response, or one whose status is not 2xx.
    pub(super) fn send(
        &self,
        method: &str,
        url: &str,
        body: &str,
        login: Option<&str>,
    ) -> Result<String, String> {
        let error = |error: &dyn std::fmt::Display| format!("{method} {url}: {error}");
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        if let Some(login) = login {
            request = request.header("Authorization", format!("Basic {}", STANDARD.encode(login)));
        }
        if !body.is_empty() {
            request = request.header("Content-Type", "application/json");
        }
        let request = request.header("Accept", "application/json");
        let request = request.body(body.to_owned()).map_err(|e| error(&e))?;
        let mut response = self.agent.run(request).map_err(|e| error(&e))?;
        let status = response.status();
        let text = response
            .body_mut()
            .with_config()
            .limit(BODY_BYTES_MAX)
            .read_to_string()
            .map_err(|e| error(&e))?;
        if status.is_success() {
            return Ok(text);
        }
        Err(error(&format!("{status} {}", quoted(&text))))
    }
}

/// The beginning of a response, for an error.
pub(super) fn quoted(response: &str) -> String {
    response.chars().take(QUOTED_CHARS).collect()
}

/// Number of members of an array or object of a JSON text.
fn count(text: &str, at: &str) -> Result<usize, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("the response is not JSON: {error}"))?;
    match value.pointer(at) {
        Some(Value::Array(members)) => Ok(members.len()),
        Some(Value::Object(members)) => Ok(members.len()),
        _ => Err(format!("the response has no array or object at {at:?}")),
    }
}

/// Asks for the topology at an interval, in a thread.
pub(super) struct TopologyPoller {
    answers: Receiver<(Instant, Result<DiscoveredTopology, String>)>,
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TopologyPoller {
    /// Asks for the first time after `interval`.
    pub(super) fn start(client: &NorthboundClient, interval: Duration) -> Result<Self, String> {
        let client = client.with_own_connections();
        let (stop, stopped) = channel::<()>();
        let (sender, answers) = channel();
        let thread = thread::Builder::new().name("northbound".to_owned());
        let run = move || {
            let mut next = clock::now() + interval;
            loop {
                let wait = next.saturating_duration_since(clock::now());
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                let answer = client.topology();
                let now = clock::now();
                if sender.send((now, answer)).is_err() {
                    return;
                }
                next = (next + interval).max(now);
            }
        };
        let thread = thread.spawn(run).map_err(|error| error.to_string())?;
        Ok(Self { answers, stop: Some(stop), thread: Some(thread) })
    }

    /// The next answer that has arrived, with the time of its arrival.
    pub(super) fn next_answer(&self) -> Option<(Instant, Result<DiscoveredTopology, String>)> {
        self.answers.try_recv().ok()
    }
}

impl Drop for TopologyPoller {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to report.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_counted_where_the_pointer_leads() {
        assert_eq!(count(r#"{"links": [1, 2, 3]}"#, "/links"), Ok(3));
        assert_eq!(count(r#"[{"nodes": {"a": 1, "b": 2}}]"#, "/0/nodes"), Ok(2));
        assert_eq!(count("[]", ""), Ok(0));
        let error = count(r#"{"links": 3}"#, "/links").unwrap_err();
        assert_eq!(error, "the response has no array or object at \"/links\"");
        assert!(count("<html>", "").unwrap_err().starts_with("the response is not JSON"));
    }
}
