//! The side that connects.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
};

use super::session::TlsSession;
use super::{TlsFileError, VERSIONS, files, provider};
use crate::Connection;

/// Certificate, key and authorities of a side that connects. A clone shares them.
#[derive(Debug, Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// Reads the authorities of the peer, and the certificate chain and the key of this side, if it has them.
    ///
    /// As Open vSwitch does, it checks that an authority has issued the certificate of the peer, but not the name in it:
    /// controllers are known by their addresses.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn load(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<Self, TlsFileError> {
        let (roots, _) = files::authorities(ca)?;
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider()).build();
        let verifier = verifier.map_err(|error| TlsFileError::new(ca, error))?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(|error| TlsFileError::new(ca, error))?;
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyNameVerifier(verifier)));
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let (chain, private_key) =
                    (files::certificates(certificate)?, files::private_key(key)?);
                builder.with_client_auth_cert(chain, private_key).map_err(|error| {
                    let certificate = certificate.display();
                    TlsFileError::new(key, format!("cannot be used with {certificate}: {error}"))
                })?
            }
        };
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Self { config: Arc::new(config) })
    }

    /// A connection that is to be established, or is established.
    ///
    /// # Errors
    /// Only if this configuration cannot be used, which [`load`](Self::load) has checked.
    pub fn connect(&self, stream: TcpStream) -> std::io::Result<Connection> {
        // Not sent, and not checked.
        let name = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
        let tls = ClientConnection::new(Arc::clone(&self.config), name);
        let tls = tls.map_err(std::io::Error::other)?;
        Ok(Connection::with_tls(stream, TlsSession::new(tls.into())))
    }
}

/// Accepts any name in a certificate that an authority has issued.
#[derive(Debug)]
struct AnyNameVerifier(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyNameVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is checked last.
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
