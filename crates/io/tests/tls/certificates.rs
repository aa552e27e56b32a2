//! Authorities and certificates of the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use sluice_io::{ClientAuth, TlsClient, TlsServer};

/// An authority, and a folder for files, which is removed at the end.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) folder: PathBuf,
}

/// Certificate and key.
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Drop for Authority {
    fn drop(&mut self) {
        // Only a temporary folder stays if it fails.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Authority {
    pub(crate) fn new(test: &str) -> Self {
        // A test runs several times at once.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tls-{test}-{process}-{count}"));
        fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("authority of {test}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A certificate with this common name and this DNS name, valid until the end of `year`.
    pub(crate) fn issue(&self, common_name: &str, dns_name: &str, year: i32) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([dns_name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let name = common_name.split(' ').next().unwrap();
        let identity = Identity {
            certificate: self.folder.join(format!("{name}-{year}.pem")),
            key: self.folder.join(format!("{name}-{year}.key")),
        };
        fs::write(&identity.certificate, certificate.pem()).unwrap();
        fs::write(&identity.key, key.serialize_pem()).unwrap();
        identity
    }

    pub(crate) fn server(&self, client_auth: &ClientAuth) -> TlsServer {
        let identity = self.issue("controller", "controller", 2999);
        TlsServer::load(&identity.certificate, &identity.key, client_auth).unwrap()
    }

    /// A client that trusts this authority.
    pub(crate) fn client(&self, identity: Option<&Identity>) -> TlsClient {
        let identity = identity.map(|it| (it.certificate.as_path(), it.key.as_path()));
        TlsClient::load(&self.file(), identity).unwrap()
    }
}
