//! The side that accepts connections.

use std::fmt;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, ServerConnection};

use super::session::TlsSession;
use super::{TlsFileError, VERSIONS, files, provider};
use crate::Connection;

/// Whether peers must have a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAuth {
    /// One that an authority in this PEM file has issued.
    Required(PathBuf),
    /// None is requested.
    None,
}

/// Certificate, key and authorities of a listener. A clone shares them.
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    /// The own certificates, then those of the authorities: what makes two configurations differ.
    certificates: Arc<[CertificateDer<'static>]>,
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").finish_non_exhaustive()
    }
}

/// Whether both have the same certificates and authorities.
impl PartialEq for TlsServer {
    fn eq(&self, other: &Self) -> bool {
        self.certificates == other.certificates
    }
}

impl Eq for TlsServer {}

impl TlsServer {
    /// Reads the certificate chain and the key of this side, and the authorities of the peers.
    ///
    /// Sessions are not resumed, so that each connection presents its certificate.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn load(
        certificate: &std::path::Path,
        key: &std::path::Path,
        client_auth: &ClientAuth,
    ) -> Result<Self, TlsFileError> {
        let chain = files::certificates(certificate)?;
        let private_key = files::private_key(key)?;
        let mut certificates = chain.clone();
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(|error| TlsFileError::new(certificate, error))?;
        let builder = match client_auth {
            ClientAuth::None => builder.with_no_client_auth(),
            ClientAuth::Required(path) => {
                let (roots, authorities) = files::authorities(path)?;
                certificates.extend(authorities);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = verifier.build().map_err(|error| TlsFileError::new(path, error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, private_key).map_err(|error| {
            let certificate = certificate.display();
            TlsFileError::new(key, format!("cannot be used with {certificate}: {error}"))
        })?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), certificates: certificates.into() })
    }

    /// The configuration, for `tokio-rustls`.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// A connection that was accepted.
    ///
    /// # Errors
    /// Only if this configuration cannot be used, which [`load`](Self::load) has checked.
    pub fn accept(&self, stream: TcpStream) -> std::io::Result<Connection> {
        let tls = ServerConnection::new(Arc::clone(&self.config)).map_err(std::io::Error::other)?;
        Ok(Connection::with_tls(stream, TlsSession::new(tls.into())))
    }
}
