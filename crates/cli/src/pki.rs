//! `sluice pki`: a laboratory authority, and the certificates that it issues.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, date_time_ymd,
};
use sluice_io::clock;

use crate::write_stdout;

/// How long the authority's certificate is valid.
const AUTHORITY_DAYS: u32 = 3650;

/// By how much certificates are valid before they are issued, as clocks differ.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(3600);

const DAY: Duration = Duration::from_secs(86_400);

/// What to make.
#[derive(Debug, Subcommand)]
pub(crate) enum PkiCommand {
    /// Make an authority: its certificate ca.pem and its key ca.key
    Init(Folder),
    /// Issue a certificate
    #[command(subcommand)]
    Issue(IssueCommand),
}

/// For whom a certificate is issued.
#[derive(Debug, Subcommand)]
pub(crate) enum IssueCommand {
    /// For the controller: controller.pem and controller.key
    Controller(ControllerArgs),
    /// For a switch, or for all bridges of one Open vSwitch: NAME.pem and NAME.key
    Switch(SwitchArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Folder {
    /// Folder of the authority and its certificates
    #[arg(long, value_name = "DIR", default_value = "pki")]
    dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Validity {
    #[command(flatten)]
    folder: Folder,
    /// Days for which the certificate is valid
    #[arg(long, value_name = "N", default_value_t = 825, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// Host name or IP address at which clients reach the API; may be given several times
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    validity: Validity,
}

#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// Name of the certificate and its files
    #[arg(default_value = "switch", value_parser = file_name)]
    name: String,
    /// Datapath id that the certificate names, 16 hex digits; may be given several times
    #[arg(long = "dpid", value_name = "ID", value_parser = datapath_id)]
    datapath_ids: Vec<u64>,
    #[command(flatten)]
    validity: Validity,
}

fn file_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_reserved = ["ca", "controller"].contains(&text);
    if text.is_empty() || text.starts_with('.') || is_reserved || !text.chars().all(is_plain) {
        return Err("expected letters, digits, `-`, `_` and `.`; not ca or controller".to_owned());
    }
    Ok(text.to_owned())
}

fn datapath_id(text: &str) -> Result<u64, String> {
    let is_hex = (1..=16).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_hexdigit());
    let id = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    id.ok_or_else(|| "expected up to 16 hex digits, such as 0000000000000001".to_owned())
}

impl PkiCommand {
    pub(crate) fn run(self) -> Result<(), String> {
        match self {
            Self::Init(folder) => init(&folder.dir),
            Self::Issue(IssueCommand::Controller(ControllerArgs { names, validity })) => {
                let mut all = vec!["controller".to_owned()];
                all.extend(names);
                issue("controller", all, &validity)?;
                write_stdout(&controller_commands(&validity.folder.dir))
            }
            Self::Issue(IssueCommand::Switch(args)) => {
                let mut names = vec![args.name.clone()];
                names.extend(args.datapath_ids.iter().map(|id| format!("dpid-{id:016x}")));
                issue(&args.name, names, &args.validity)?;
                write_stdout(&switch_commands(&args.validity.folder.dir, &args.name)?)
            }
        }
    }
}

fn init(dir: &Path) -> Result<(), String> {
    let created = DirBuilder::new().mode(0o700).recursive(true).create(dir);
    created.map_err(|e| format!("cannot create {}: {e}", dir.display()))?;
    let key = KeyPair::generate().map_err(|e| format!("cannot make a key: {e}"))?;
    let params = authority(&key, AUTHORITY_DAYS);
    let certificate = params.self_signed(&key).map_err(|e| format!("cannot sign: {e}"))?;
    write_pair(dir, "ca", &certificate.pem(), &key)?;
    let show = |name: &str| dir.join(name).display().to_string();
    let dir =
        if dir == Path::new("pki") { String::new() } else { format!(" --dir {}", dir.display()) };
    write_stdout(&format!(
        "wrote {} and {}: keep the key secret\n\n\
         Issue certificates for the controller and for switches:\n  \
         sluice pki issue controller{dir}\n  sluice pki issue switch{dir}\n",
        show("ca.pem"),
        show("ca.key")
    ))
}

fn issue(name: &str, names: Vec<String>, validity: &Validity) -> Result<(), String> {
    let dir = &validity.folder.dir;
    let ca_key_path = dir.join("ca.key");
    let ca_key = fs::read_to_string(&ca_key_path).map_err(|e| {
        let path = ca_key_path.display();
        format!("cannot read {path}: {e}; `sluice pki init` makes an authority")
    })?;
    let ca_key =
        KeyPair::from_pem(&ca_key).map_err(|e| format!("{}: {e}", ca_key_path.display()))?;
    let issuer = Issuer::new(authority(&ca_key, AUTHORITY_DAYS), ca_key);
    let failed = |e: rcgen::Error| format!("cannot issue a certificate: {e}");
    let key = KeyPair::generate().map_err(failed)?;
    let common_name = names.first().cloned().unwrap_or_default();
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, validity.days);
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    write_pair(dir, name, &certificate.pem(), &key)?;
    let (pem, key) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
    write_stdout(&format!("wrote {} and {}\n\n", pem.display(), key.display()))
}

/// The certificate of the authority with this key, whose name contains a part of it: so the key is all that is needed to issue
/// certificates.
fn authority(key: &KeyPair, days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    let id = u64::from_be_bytes(key.der_bytes().last_chunk().copied().unwrap_or_default());
    let name = format!("Sluice laboratory authority {id:016x}");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, days);
    params
}

fn set_validity(params: &mut CertificateParams, days: u32) {
    let now = date_time_ymd(1970, 1, 1) + clock::since_epoch();
    params.not_before = now - CLOCK_DIFFERENCE;
    params.not_after = now + DAY * days;
}

/// Writes `NAME.key`, which only the owner may read, and `NAME.pem`; neither replaces a file.
fn write_pair(dir: &Path, name: &str, certificate: &str, key: &KeyPair) -> Result<(), String> {
    let files = [("key", key.serialize_pem(), 0o600), ("pem", certificate.to_owned(), 0o644)];
    let path = |extension: &str| dir.join(format!("{name}.{extension}"));
    if let Some(existing) = files.iter().map(|(it, ..)| path(it)).find(|path| path.exists()) {
        return Err(exists(&existing));
    }
    for (extension, content, mode) in files {
        let path = path(extension);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        file.and_then(|mut file| file.write_all(content.as_bytes())).map_err(|e| {
            match e.kind() {
                ErrorKind::AlreadyExists => exists(&path),
                _ => format!("cannot write {}: {e}", path.display()),
            }
        })?;
    }
    Ok(())
}

fn exists(path: &Path) -> String {
    format!(
        "{} exists, and no file is replaced; remove it first, or choose another --dir or name",
        path.display()
    )
}

fn controller_commands(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "Start the controller, with switches on port 6654 over TLS:\n  \
         sluice run --tls-listen 6654 --tls-cert {dir}/controller.pem --tls-key {dir}/controller.key \
         --tls-ca {dir}/ca.pem\n"
    )
}

fn switch_commands(dir: &Path, name: &str) -> Result<String, String> {
    // Open vSwitch has another working directory.
    let dir = dir.canonicalize().map_err(|e| format!("cannot find {}: {e}", dir.display()))?;
    let dir = dir.display();
    Ok(format!(
        "On the switch, with these two files and ca.pem:\n  \
         ovs-vsctl set-ssl {dir}/{name}.key {dir}/{name}.pem {dir}/ca.pem\n  \
         ovs-vsctl set-controller br0 ssl:127.0.0.1:6654\n"
    ))
}
