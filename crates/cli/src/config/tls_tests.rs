//! Sections of TLS listeners.

use super::tests::{TestFile, errors, load};

#[test]
fn a_key_for_tls_that_is_missing_or_names_a_bad_file_is_an_error_at_that_key() {
    let error = |text: &str| errors("tls", text, &[], "").join("\n");
    let listen = "listen = []\n[tls]\nlisten = [\"127.0.0.1:0\"]\n";
    assert_eq!(
        error(listen),
        "default: `tls.certificate`: missing (expected the PEM file with the controller's certificate; \
         `sluice pki` makes one)"
    );
    let files = "certificate = \"/dev/null\"\nkey = \"k\"\n";
    let bound = "client_auth = \"none\"\nbind_datapath_id = true\n";
    assert_eq!(
        error(&format!("{listen}{files}{bound}")),
        "F:7:1: `tls.bind_datapath_id`: needs certificates of the switches, but `client_auth` is none"
    );
    let bad = format!("{listen}{files}client_auth = \"none\"\n");
    let found = error(&bad);
    assert!(found.starts_with("F:4:1: `tls.certificate`: /dev/null: "), "{found}");
    // Listeners with settings of their own.
    let own = |keys: &str| {
        let section = "[[tls.listeners]]\nlisten = [\"127.0.0.1:0\"]\n";
        error(&format!("listen = []\n[tls]\nclient_auth = \"none\"\n{section}{keys}"))
    };
    let missing = own("");
    assert!(
        missing.starts_with("F:4:7: `tls.listeners`: listener 1: `certificate`: missing"),
        "{missing}"
    );
    let bound = own(&format!("{files}bind_datapath_id = true\n"));
    assert!(bound.contains("listener 1: `bind_datapath_id`: needs certificates"), "{bound}");
    let unknown = own("port = 3\n");
    assert!(unknown.contains("unknown field `port`"), "{unknown}");
    let same = error("[tls]\n[[tls.listeners]]\nlisten = [\"[::]:6633\"]\n");
    assert!(same.contains("[::]:6633 is an address of `listen`, too"), "{same}");
    let none = error("listen = []\n[[tls.listeners]]\nlisten = []\n");
    assert!(none.contains("no address"), "{none}");
    let twice = "[tls]\nlisten = [\"[::]:6653\"]\n";
    let found = error(twice);
    assert!(
        found.starts_with("F:2:1: `tls.listen`: [::]:6653 is an address of `listen`, too"),
        "{found}"
    );
}

#[test]
fn addresses_of_two_listeners_that_exclude_each_other_are_rejected() {
    let error = |text: &str| errors("exclude", text, &[], "").join("\n");
    let specific = "[tls]\nlisten = [\"127.0.0.1:6653\"]\n";
    assert_eq!(
        error(specific),
        "F:2:1: `tls.listen`: [::]:6653 of `listen` includes 127.0.0.1:6653: choose another port for one of them"
    );
    let wide = "listen = [\"0.0.0.0:7000\"]\n[[tls.listeners]]\nlisten = [\"7000\"]\n";
    assert!(
        error(wide).ends_with(
            "listener 1: [::]:7000 includes 0.0.0.0:7000 of `listen`: choose another port for one of them"
        ),
        "{}",
        error(wide)
    );
    // The files are read when all addresses before are known to be valid.
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["controller".to_owned()]).unwrap();
    let certificate = TestFile::new("exclude-certificate", &cert.pem());
    let key = TestFile::new("exclude-key", &signing_key.serialize_pem());
    let two = |first: &str, second: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n[tls]\ncertificate = \"{}\"\nkey = \"{}\"\nclient_auth = \"none\"\n\
             [[tls.listeners]]\nlisten = [\"{first}\"]\n[[tls.listeners]]\nlisten = [\"{second}\"]\n",
            certificate.0.display(),
            key.0.display(),
        )
    };
    let found = error(&two("127.0.0.1:0", "127.0.0.1:0"));
    assert!(
        found.ends_with(
            "listener 2: 127.0.0.1:0 is an address of listener 1 of `tls.listeners`, too: give one of them a port"
        ),
        "{found}"
    );
    let found = error(&two("127.0.0.1:7000", "7000"));
    assert!(
        found.ends_with(
            "listener 2: [::]:7000 includes 127.0.0.1:7000 of listener 1 of `tls.listeners`: choose another port for one of them"
        ),
        "{found}"
    );
    for (first, second) in
        [("[fe80::1%2]:7000", "[fe80::1%3]:7000"), ("127.0.0.1:0", "127.0.0.2:0")]
    {
        load("exclude-not", &two(first, second), &[], "");
    }
}
