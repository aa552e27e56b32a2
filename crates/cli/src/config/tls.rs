//! The TLS listeners, made from the settings and the files that these name.

use std::net::SocketAddr;
use std::path::Path;

use serde::Deserialize;
use sluice_engine::{TlsListeners, Transport};
use sluice_io::{ClientAuth, TlsServer};

use super::settings::{Settings, TlsSettings};
use super::values::{ByName, ClientCertificates, ListenAddresses, includes};

/// A key of a section, and what is wrong with its value.
type KeyError = (&'static str, String);

/// A TLS listener; the keys that are missing are those of the section `tls`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsListenerSettings {
    listen: ListenAddresses,
    certificate: Option<String>,
    key: Option<String>,
    client_ca: Option<String>,
    client_auth: Option<ByName<ClientCertificates>>,
    bind_datapath_id: Option<bool>,
}

/// The TLS listeners: that of the section `tls`, and the further ones in it.
///
/// # Errors
/// The key that is wrong, and why.
pub(super) fn listeners(settings: &Settings) -> Result<Vec<TlsListeners>, KeyError> {
    let (tcp, tls) = (&settings.listen.0, &settings.tls);
    let own = tls.listeners.iter();
    if tcp.is_empty() && tls.listen.0.is_empty() && own.clone().all(|it| it.listen.0.is_empty()) {
        return Err((
            "listen",
            "no address (expected at least one here or in `tls.listen`)".to_owned(),
        ));
    }
    let mut used = UsedAddresses::default();
    used.insert(tcp, "`listen`", Transport::Tcp).map_err(|error| ("listen", error))?;
    let mut listeners = vec![];
    if !tls.listen.0.is_empty() {
        used.insert(&tls.listen.0, "`tls.listen`", Transport::Tls)
            .map_err(|error| ("tls.listen", error))?;
        listeners.push(load(&TlsListenerSettings::of_section(tls)).map_err(|(key, error)| {
            let key = match key {
                "certificate" => "tls.certificate",
                "key" => "tls.key",
                "client_ca" => "tls.client_ca",
                _ => "tls.bind_datapath_id",
            };
            (key, error)
        })?);
    }
    for (listener, number) in own.zip(1..) {
        let in_list = |error: String| ("tls.listeners", format!("listener {number}: {error}"));
        if listener.listen.0.is_empty() {
            return Err(in_list("`listen`: no address".to_owned()));
        }
        let key = format!("listener {number} of `tls.listeners`");
        used.insert(&listener.listen.0, &key, Transport::Tls).map_err(in_list)?;
        let merged = listener.clone().with_defaults(tls);
        let loaded = load(&merged).map_err(|(key, error)| in_list(format!("`{key}`: {error}")))?;
        listeners.push(loaded);
    }
    Ok(listeners)
}

/// The addresses of listeners so far.
#[derive(Default)]
struct UsedAddresses(Vec<UsedAddress>);

struct UsedAddress {
    addr: SocketAddr,
    transport: Transport,
    /// The key that has the address.
    key: String,
}

impl UsedAddresses {
    /// Adds the addresses of a key.
    ///
    /// # Errors
    /// Another key has one of them, so that they cannot both be opened. Or both have port 0 and TLS settings of their own: a reload
    /// could not tell which listener has which settings.
    fn insert(
        &mut self,
        addresses: &[SocketAddr],
        key: &str,
        transport: Transport,
    ) -> Result<(), String> {
        for &addr in addresses {
            for UsedAddress { addr: used, transport: other, key } in &self.0 {
                let both_tls = [transport, *other] == [Transport::Tls; 2];
                let conflict = if addr == *used && addr.port() == 0 && both_tls {
                    format!("{addr} is an address of {key}, too: give one of them a port")
                } else if addr == *used && addr.port() != 0 {
                    format!(
                        "{addr} is an address of {key}, too: choose another port for one of them"
                    )
                } else if includes(addr, *used) {
                    format!("{addr} includes {used} of {key}: choose another port for one of them")
                } else if includes(*used, addr) {
                    format!("{used} of {key} includes {addr}: choose another port for one of them")
                } else {
                    continue;
                };
                return Err(conflict);
            }
        }
        let added = addresses.iter();
        self.0.extend(added.map(|&addr| UsedAddress { addr, transport, key: key.to_owned() }));
        Ok(())
    }
}

impl TlsListenerSettings {
    /// The listener that the keys of the section describe.
    fn of_section(tls: &TlsSettings) -> Self {
        let none = Self {
            listen: tls.listen.clone(),
            certificate: None,
            key: None,
            client_ca: None,
            client_auth: None,
            bind_datapath_id: None,
        };
        none.with_defaults(tls)
    }

    /// With the keys of the section for those that are missing.
    fn with_defaults(self, tls: &TlsSettings) -> Self {
        Self {
            listen: self.listen,
            certificate: self.certificate.or_else(|| Some(tls.certificate.clone())),
            key: self.key.or_else(|| Some(tls.key.clone())),
            client_ca: self.client_ca.or_else(|| Some(tls.client_ca.clone())),
            client_auth: self.client_auth.or(Some(tls.client_auth)),
            bind_datapath_id: self.bind_datapath_id.or(Some(tls.bind_datapath_id)),
        }
    }
}

/// Reads the files of a listener.
fn load(listener: &TlsListenerSettings) -> Result<TlsListeners, KeyError> {
    let file = |key, path: &Option<String>, what: &str| match path.as_deref() {
        None | Some("") => Err((
            key,
            format!("missing (expected the PEM file with {what}; `sluice pki` makes one)"),
        )),
        Some(path) => Ok(Path::new(path).to_owned()),
    };
    let certificate = file("certificate", &listener.certificate, "the controller's certificate")?;
    let key = file("key", &listener.key, "the private key")?;
    let bind_datapath_id = listener.bind_datapath_id == Some(true);
    let client_auth = match listener.client_auth {
        Some(ByName(ClientCertificates::None)) if bind_datapath_id => {
            let error = "needs certificates of the switches, but `client_auth` is none";
            return Err(("bind_datapath_id", error.to_owned()));
        }
        Some(ByName(ClientCertificates::None)) => ClientAuth::None,
        Some(ByName(ClientCertificates::Required)) | None => ClientAuth::Required(file(
            "client_ca",
            &listener.client_ca,
            "the authorities that issue the switches' certificates",
        )?),
    };
    let server = TlsServer::load(&certificate, &key, &client_auth).map_err(|error| {
        let path = match &error.path {
            path if *path == certificate => "certificate",
            path if *path == key => "key",
            _ => "client_ca",
        };
        (path, error.to_string())
    })?;
    Ok(TlsListeners { listen: listener.listen.0.clone(), server, bind_datapath_id })
}
