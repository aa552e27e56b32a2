//! TLS on the connections of [`Epoll`](crate::Epoll), for the acceptor's side and for the switch's.
//!
//! A connection that carries TLS behaves as any other: [`Data`](crate::IoEvent::Data) is plaintext, and
//! [`send`](crate::Io::send) takes plaintext. `docs/adr/0027-tls-in-the-io-layer.md` has the reasons.

mod certificate_names;
mod client;
mod error;
mod files;
mod https;
mod server;
mod session;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{SupportedProtocolVersion, version};

pub use client::TlsClient;
pub use error::{ConnectionError, TlsError};
pub use files::TlsFileError;
pub use https::https_client;
pub use server::{ClientAuth, TlsServer};
pub(crate) use session::{PLAINTEXT_BYTES_MAX, StreamEnd, TlsReception, TlsSession};

/// The versions that both sides may use.
const VERSIONS: &[&SupportedProtocolVersion] = &[&version::TLS12, &version::TLS13];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
