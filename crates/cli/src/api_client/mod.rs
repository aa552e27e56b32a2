//! The client of the controller's API, for the commands that ask a running controller.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sluice_io::input_file::{self, FileKinds};
use sluice_io::{TlsFileError, https_client};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};

/// Where the controller listens unless `api` is configured.
const API_DEFAULT: &str = "127.0.0.1:8653";

/// The port of the API in an address without one.
const PORT_DEFAULT: u16 = 8653;

/// A switch may take 30 s to list its flow entries.
const TIMEOUT: Duration = Duration::from_secs(35);

/// The largest answer: the flow entries of a switch that has some millions.
const ANSWER_BYTES_MAX: usize = 4 << 30;

/// The environment variable with the address of the API.
const API_VARIABLE: &str = "SLUICE_API";

/// The environment variable with the token, since other users of the machine see the arguments of a command.
const TOKEN_VARIABLE: &str = "SLUICE_TOKEN";

/// The largest file with a token.
const TOKEN_FILE_BYTES_MAX: usize = 4096;

/// How long reading a file with a token may take.
const TOKEN_FILE_TIMEOUT: Duration = Duration::from_secs(5);

/// How a command reaches the API.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApiArgs {
    #[arg(help = "The controller's API: ADDRESS:PORT, https://NAME:PORT, or unix:/PATH")]
    #[arg(long, env = API_VARIABLE, value_name = "ADDRESS", default_value = API_DEFAULT, global = true)]
    api: String,
    /// Token for the API; in this option, other users of this machine can see it [env: `SLUICE_TOKEN`]
    #[arg(long, value_name = "TOKEN", global = true, conflicts_with = "token_file")]
    token: Option<String>,
    /// File with the token for the API
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// PEM file with the authorities that issue the controller's certificate [default: those of the system]
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// Send the token to another machine without TLS
    #[arg(long, global = true)]
    token_without_tls: bool,
}

/// Why there is no answer, or what the controller says instead of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiFailure {
    /// The status of the answer, if there was one.
    pub(crate) status: Option<u16>,
    /// The code of the error, such as `switch_not_connected`; empty if there was no answer, or none of the API.
    pub(crate) code: String,
    /// A sentence for people.
    pub(crate) message: String,
}

impl fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ApiFailure> for String {
    fn from(failure: ApiFailure) -> Self {
        failure.message
    }
}

/// Where the API is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Unix(PathBuf),
    Tcp {
        has_tls: bool,
        /// Without the brackets of an IPv6 address.
        host: String,
        port: u16,
    },
}

/// A client of the API. Each request has a connection of its own.
#[derive(Debug)]
pub(crate) struct ApiClient {
    /// As the user has written it.
    address: String,
    target: Target,
    authorization: Option<HeaderValue>,
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
}

impl ApiArgs {
    /// Arguments of a command that is not about an API and has options of other names for one. The token is in a file or in the variable.
    pub(crate) fn of(
        api: String,
        token_file: Option<PathBuf>,
        ca: Option<PathBuf>,
        token_without_tls: bool,
    ) -> Self {
        Self { api, token: None, token_file, ca, token_without_tls }
    }

    /// The client for these arguments.
    pub(crate) fn client(&self) -> Result<ApiClient, String> {
        let target = parse_target(&self.api)?;
        let authorization = self.token()?.map(|token| authorization(&token)).transpose()?;
        let tls = match &target {
            Target::Tcp { has_tls: true, .. } => {
                let config = https_client(self.ca.as_deref());
                Some(config.map_err(|error: TlsFileError| format!("--ca: {error}"))?)
            }
            _ => None,
        };
        let is_exposed = match &target {
            Target::Tcp { has_tls: false, host, .. } => !is_this_machine(host),
            _ => false,
        };
        if is_exposed && authorization.is_some() && !self.token_without_tls {
            return Err(format!(
                "the token would be sent to {} in clear text: use https://, or permit it with --token-without-tls",
                self.api
            ));
        }
        let timeout = TIMEOUT;
        Ok(ApiClient { address: self.api.clone(), target, authorization, tls, timeout })
    }

    fn token(&self) -> Result<Option<String>, String> {
        if let Some(token) = &self.token {
            return Ok(Some(token.clone()));
        }
        let Some(path) = &self.token_file else {
            return Ok(std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty()));
        };
        let read = input_file::read(path, FileKinds::Any, TOKEN_FILE_BYTES_MAX, TOKEN_FILE_TIMEOUT);
        let bytes = read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        String::from_utf8(bytes)
            .map(|text| Some(text.trim().to_owned()))
            .map_err(|_| format!("{}: expected a token, which is text", path.display()))
    }
}

fn authorization(token: &str) -> Result<HeaderValue, String> {
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = is_token.then(|| HeaderValue::try_from(format!("Bearer {token}")).ok()).flatten();
    let mut value = value.ok_or("the token is empty, or has a character that no token has")?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn parse_target(text: &str) -> Result<Target, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = Path::new(path.strip_prefix("//").unwrap_or(path));
        let target = path.is_absolute().then(|| Target::Unix(path.to_owned()));
        return target.ok_or_else(|| invalid_target(text));
    }
    // A port alone, as the controller takes it.
    if let Ok(port) = text.parse() {
        return Ok(Target::Tcp { has_tls: false, host: "127.0.0.1".to_owned(), port });
    }
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = url.parse().map_err(|_| invalid_target(text))?;
    let has_tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(invalid_target(text)),
    };
    let authority = uri.authority().map_or("", |it| it.as_str());
    let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
    let host = uri.host().unwrap_or_default();
    let has_valid_port = authority.strip_prefix(host) == Some("") || uri.port_u16().is_some();
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() || has_path || authority.contains('@') || !has_valid_port {
        return Err(invalid_target(text));
    }
    let port = uri.port_u16().unwrap_or(PORT_DEFAULT);
    Ok(Target::Tcp { has_tls, host: host.to_owned(), port })
}

fn invalid_target(text: &str) -> String {
    format!(
        "invalid address of the API \"{text}\" (expected 127.0.0.1:8653, https://NAME:8653 or unix:/PATH)"
    )
}

impl ApiClient {
    /// A client without a token, for an address without TLS.
    pub(crate) fn at(address: SocketAddr, timeout: Duration) -> Self {
        let (host, port) = (address.ip().to_string(), address.port());
        let target = Target::Tcp { has_tls: false, host, port };
        Self { address: address.to_string(), target, authorization: None, tls: None, timeout }
    }

    /// The client with another time to wait for an answer.
    pub(crate) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The answer to a `GET`, as text. Values of the query are encoded here.
    pub(crate) fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<String, ApiFailure> {
        self.send(&Method::GET, path, query, None)
    }

    /// The answer to a `POST` of `body`.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<String, ApiFailure> {
        self.send(&Method::POST, path, &[], Some(body))
    }

    /// The JSON that answers a `GET`.
    pub(crate) fn get_json(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, String> {
        self.send_json(&Method::GET, path, query, None)
    }

    /// The JSON that answers any request.
    pub(crate) fn send_json(
        &self,
        method: &Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, String> {
        parse_answer(path, &self.send(method, path, query, body)?)
    }

    /// The answer to any request, as text. The path is encoded already ([`encode`]).
    pub(crate) fn send(
        &self,
        method: &Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<String, ApiFailure> {
        let (status, body) = self.block_on(path, async {
            let answer = async {
                let (status, body) = self.exchange(method, path, query, body).await?;
                Ok((status, read_text(body).await?))
            };
            tokio::time::timeout(self.timeout, answer)
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {} s", self.timeout.as_secs())))
        })?;
        if status.is_success() { Ok(body) } else { Err(self.refused(path, status, &body)) }
    }

    /// Passes the parts of an answer that lasts to `on_part` as they arrive, until the answer ends or `on_part` breaks.
    pub(crate) fn stream(
        &self,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&'static str, &str)],
        mut on_part: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ApiFailure> {
        let refusal = self.block_on(path, async {
            let head = self.exchange_with(&Method::GET, path, query, headers, None);
            let head = tokio::time::timeout(self.timeout, head).await;
            let (status, mut body) = head.unwrap_or_else(|_| {
                Err(format!("no answer within {} s", self.timeout.as_secs()))
            })?;
            if !status.is_success() {
                return Ok(Some((status, read_text(body).await?)));
            }
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(text)?;
                if frame.data_ref().is_some_and(|part| on_part(part).is_break()) {
                    break;
                }
            }
            Ok(None)
        })?;
        refusal.map_or(Ok(()), |(status, body)| Err(self.refused(path, status, &body)))
    }

    fn block_on<T>(
        &self,
        path: &str,
        exchange: impl Future<Output = Result<T, String>>,
    ) -> Result<T, ApiFailure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.failed(path, &error))?;
        runtime.block_on(exchange).map_err(|why| self.failed(path, &why))
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<(StatusCode, Incoming), String> {
        self.exchange_with(method, path, query, &[], body).await
    }

    async fn exchange_with(
        &self,
        method: &Method,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&'static str, &str)],
        body: Option<&Value>,
    ) -> Result<(StatusCode, Incoming), String> {
        let mut request = Request::builder()
            .method(method)
            .uri(with_query(path, query))
            .header(HOST, self.target.host_header())
            .header(ACCEPT, "*/*");
        for &(name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body))).map_err(text)?;
        match &self.target {
            Target::Unix(path) => {
                exchange_on(
                    UnixStream::connect(path).await.map_err(|error| not_running(&error))?,
                    request,
                )
                .await
            }
            Target::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(|error| not_running(&error))?;
                let Some(tls) = &self.tls else { return exchange_on(stream, request).await };
                let name = ServerName::try_from(host.clone()).map_err(text)?;
                let tls = TlsConnector::from(Arc::clone(tls)).connect(name, stream);
                exchange_on(tls.await.map_err(not_tls)?, request).await
            }
        }
    }

    fn failed(&self, path: &str, why: &impl fmt::Display) -> ApiFailure {
        let at = &self.address;
        let message = format!("no answer of the API at {at} to {path}: {why}");
        ApiFailure { status: None, code: String::new(), message }
    }

    fn refused(&self, path: &str, status: StatusCode, body: &str) -> ApiFailure {
        let document: Option<Value> = serde_json::from_str(body).ok();
        let text = |at: &str| document.as_ref()?.pointer(at)?.as_str().map(str::to_owned);
        ApiFailure {
            status: Some(status.as_u16()),
            code: text("/error/code").unwrap_or_default(),
            message: text("/error/message")
                .unwrap_or_else(|| format!("{path} at {}: {status}", self.address)),
        }
    }
}

impl Target {
    fn host_header(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".to_owned(),
            Self::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

/// Sends a request on a new connection; the status and the body of the answer.
async fn exchange_on<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Incoming), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    // An error of the connection is also one of the request.
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(not_http)?;
    Ok((response.status(), response.into_body()))
}

/// All of a body.
async fn read_text(body: Incoming) -> Result<String, String> {
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(text)?.to_bytes();
    String::from_utf8(body.into()).map_err(|_| "the answer is not UTF-8".to_owned())
}

/// The JSON of an answer.
pub(crate) fn parse_answer(path: &str, body: &str) -> Result<Value, String> {
    serde_json::from_str(body).map_err(|error| format!("{path}: the answer is not JSON: {error}"))
}

fn not_running(error: &std::io::Error) -> String {
    format!("{error} (is `sluice run` running?)")
}

/// Why a request failed, with what to do if the peer does not speak HTTP.
fn not_http(error: hyper::Error) -> String {
    let is_other_protocol = error.is_parse() || error.is_incomplete_message();
    let why = text(error);
    if is_other_protocol {
        format!(
            "{why}: the peer does not speak HTTP there. The API has another port than OpenFlow ({PORT_DEFAULT} by default); with TLS, its address begins with https://"
        )
    } else {
        why
    }
}

/// Why a TLS handshake failed, with what to do if the peer does not speak TLS.
fn not_tls(error: std::io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let is_plain = matches!(cause, Some(rustls::Error::InvalidMessage(_)));
    let why = text(error);
    if is_plain {
        format!(
            "{why}: the peer does not speak TLS there. Without TLS, its address begins with http://"
        )
    } else {
        why
    }
}

/// An error and its cause: hyper's own text does not say why a connection failed.
fn text(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> String {
    let error = error.into();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let pairs: Vec<_> =
        query.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// The path of something of a switch.
pub(crate) fn of_switch(switch: &str, what: &str) -> String {
    format!("/v1/switches/{}/{what}", encode(switch))
}

/// The path of something of a port of a switch; `what` begins with a slash unless it is empty.
pub(crate) fn of_port(switch: &str, port: &str, what: &str) -> String {
    format!("/v1/switches/{}/ports/{}{what}", encode(switch), encode(port))
}

/// A name as a part of a path or of a query.
pub(crate) fn encode(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests;
