//! Who may use the API.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod hostile_clients;
mod routes;
mod streams;
mod test_server;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use sluice_io::clock;
use sluice_northbound::tokens::Role;
use sluice_northbound::{AccessConfig, AuditTarget, Config};
use test_server::{Folder, connect_unix, exchange, request, start, with_access};

const LOCAL: &str = "host: localhost\r\n";

/// A method that no route has: the answer 405 shows that the request was allowed.
const WRITE: &str = "DELETE /v1/switches";

fn bearer(token: &str) -> String {
    format!("{LOCAL}authorization: Bearer {token}\r\n")
}

#[test]
fn a_token_has_the_rights_of_its_role() {
    let folder = Folder::new("roles");
    let (read, operate, administer) = (
        folder.add_token("r", Role::Read, None),
        folder.add_token("o", Role::Operate, None),
        folder.add_token("a", Role::Administer, None),
    );
    let server = with_access(AccessConfig {
        tokens: Some(folder.tokens()),
        local_role: None,
        ..AccessConfig::default()
    });
    for (line, [of_read, of_operate, of_administer]) in [
        ("GET /v1/switches", [200, 200, 200]),
        ("HEAD /v1/switches", [200, 200, 200]),
        (WRITE, [403, 405, 405]),
        ("PROPFIND /v1/switches", [403, 405, 405]),
        ("GET /v1/tokens", [403, 403, 200]),
        ("GET /v1/x", [404, 404, 404]),
    ] {
        for (token, expected) in
            [(&read, of_read), (&operate, of_operate), (&administer, of_administer)]
        {
            let (status, answer) = request(&server, line, &bearer(token));
            assert_eq!(status, expected, "{line}: {answer}");
            if status == 403 {
                assert!(answer.contains("role_insufficient"), "{answer}");
            }
        }
    }
    let (_, tokens) = request(&server, "GET /v1/tokens", &bearer(&administer));
    assert!(tokens.contains(r#"{"name":"o","role":"operate","#), "{tokens}");
    assert!(!tokens.contains("sha256"), "{tokens}");
}

#[test]
fn a_request_without_a_valid_token_gets_the_reason() {
    let folder = Folder::new("reasons");
    let token = folder.add_token("r", Role::Read, None);
    let expired = folder.add_token("old", Role::Administer, Some(Duration::from_secs(3600)));
    let server = with_access(AccessConfig {
        tokens: Some(folder.tokens()),
        local_role: None,
        ..AccessConfig::default()
    });
    for (line, headers, code) in [
        ("GET /v1/switches", LOCAL.to_owned(), "token_missing"),
        (&format!("GET /v1/switches?token={token}"), LOCAL.to_owned(), "token_missing"),
        ("GET /v1/x", LOCAL.to_owned(), "token_missing"),
        ("GET /v1/switches", bearer("sluice_1"), "token_unknown"),
        ("GET /v1/switches", bearer(&expired), "token_expired"),
        ("GET /v1/switches", format!("{LOCAL}authorization: Basic eA==\r\n"), "token_malformed"),
    ] {
        let (status, answer) = request(&server, line, &headers);
        assert_eq!(status, 401, "{line} {headers}: {answer}");
        assert!(answer.contains(code), "{code} in {answer}");
        assert!(answer.contains("www-authenticate: Bearer\r\n"), "{answer}");
    }
    // Metrics stay open to all.
    assert_eq!(request(&server, "GET /metrics", "host: x\r\n").0, 200);
    let (_, metrics) = request(&server, "GET /metrics", "host: x\r\n");
    assert!(metrics.contains("\nsluice_api_requests_refused_total 6\n"), "{metrics}");
}

#[test]
fn a_token_of_a_program_on_this_machine_counts_instead_of_the_local_role() {
    let folder = Folder::new("local");
    let token = folder.add_token("r", Role::Read, None);
    let access = |local_role| AccessConfig {
        tokens: Some(folder.tokens()),
        local_role,
        ..AccessConfig::default()
    };
    let server = with_access(access(Some(Role::Administer)));
    assert_eq!(request(&server, WRITE, LOCAL).0, 405);
    assert_eq!(request(&server, WRITE, &bearer(&token)).0, 403);
    assert_eq!(request(&server, "GET /v1/switches", &bearer("wrong")).0, 401);
    server.apply(access(Some(Role::Read)));
    assert_eq!(request(&server, WRITE, LOCAL).0, 403);
    assert_eq!(request(&server, "GET /v1/switches", LOCAL).0, 200);
    server.apply(access(None));
    assert_eq!(request(&server, "GET /v1/switches", LOCAL).0, 401);
    assert_eq!(request(&server, "GET /v1/switches", &bearer(&token)).0, 200);
}

#[test]
fn requests_that_a_proxy_passes_on_are_not_local() {
    let server = with_access(AccessConfig::default());
    for header in ["x-forwarded-for: 10.0.0.9\r\n", "forwarded: for=10.0.0.9\r\n"] {
        let (status, answer) = request(&server, "GET /v1/switches", &format!("{LOCAL}{header}"));
        assert_eq!(status, 401, "{answer}");
    }
}

#[test]
fn tokens_are_added_and_removed_while_the_server_runs() {
    let folder = Folder::new("reload");
    let server = with_access(AccessConfig {
        tokens: Some(folder.tokens()),
        local_role: None,
        ..AccessConfig::default()
    });
    let token = folder.add_token("r", Role::Read, None);
    // The other answer is 401, or 429 after many of these.
    let becomes_accepted = |is_accepted| {
        let deadline = clock::now() + Duration::from_secs(10);
        while (request(&server, "GET /v1/switches", &bearer(&token)).0 == 200) != is_accepted {
            assert!(clock::now() < deadline, "never {is_accepted}");
        }
    };
    becomes_accepted(true);
    // A file that is damaged changes nothing.
    let path = folder.file("tokens.json");
    let content = fs::read_to_string(&path).unwrap();
    fs::write(&path, "damaged").unwrap();
    let deadline = clock::now() + Duration::from_secs(2);
    while clock::now() < deadline {
        assert_eq!(request(&server, "GET /v1/switches", &bearer(&token)).0, 200);
    }
    fs::write(&path, content.replace("\"r\"", "\"renamed\"")).unwrap();
    becomes_accepted(true);
    fs::remove_file(&path).unwrap();
    becomes_accepted(false);
}

#[test]
fn a_client_that_tries_tokens_is_refused_and_others_are_not() {
    let folder = Folder::new("tries");
    let token = folder.add_token("r", Role::Read, None);
    let socket = folder.file("api.sock");
    let access = AccessConfig { tokens: Some(folder.tokens()), ..AccessConfig::default() };
    let config =
        Config { socket: Some(socket.clone()), access, ..Config::on(([127, 0, 0, 1], 0).into()) };
    let server = start(config);
    let tried: Vec<_> = (0..12)
        .map(|n| request(&server, "GET /v1/switches", &bearer(&format!("sluice_{n}"))).0)
        .collect();
    assert_eq!(tried[..10], [401; 10]);
    assert_eq!(tried[10..], [429; 2]);
    // Somebody else behind the same address.
    assert_eq!(request(&server, "GET /v1/switches", &bearer(&token)).0, 200);
    let wrong = format!("GET /v1/links HTTP/1.0\r\n{}\r\n", bearer("sluice_x"));
    assert_eq!(exchange(connect_unix(&socket), &wrong).0, 401);
}

#[test]
fn a_unix_socket_is_for_its_user_and_group() {
    let folder = Folder::new("unix");
    let socket = folder.file("api.sock");
    let audit = folder.file("audit.log");
    let access =
        AccessConfig { audit: AuditTarget::File(audit.clone()), ..AccessConfig::default() };
    let server = start(Config { listen: None, socket: Some(socket.clone()), access });
    assert_eq!(server.address(), None);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    let ask = |line: &str| {
        exchange(
            connect_unix(&socket),
            &format!("{line} HTTP/1.1\r\nhost: any.name\r\nconnection: close\r\n\r\n"),
        )
    };
    assert_eq!(ask("GET /v1/switches").0, 200);
    assert_eq!(ask(WRITE).0, 405);
    let line = wait_for_line(&audit);
    let uid = fs::metadata(&socket).unwrap();
    let uid = std::os::unix::fs::MetadataExt::uid(&uid);
    for part in [
        &format!(r#""who":"uid {uid}","from":"unix","role":"administer""#),
        r#""method":"DELETE","path":"/v1/switches","body":"","status":405,"duration_ms":"#,
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    drop(server);
    assert!(!socket.exists());
}

/// The first line of a file, once it is there.
fn wait_for_line(path: &Path) -> String {
    let deadline = clock::now() + Duration::from_secs(10);
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if let Some((line, _)) = text.split_once('\n') {
            return line.to_owned();
        }
        assert!(clock::now() < deadline, "no line in {}", path.display());
    }
}

#[test]
fn writes_are_recorded_with_their_bodies() {
    let folder = Folder::new("audit");
    let token = folder.add_token("script", Role::Read, None);
    let audit = folder.file("audit.log");
    let server = with_access(AccessConfig {
        tokens: Some(folder.tokens()),
        audit: AuditTarget::File(audit.clone()),
        ..AccessConfig::default()
    });
    let post = |headers: &str, body: &str| {
        let headers = format!(
            "{headers}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        request(&server, "POST /v1/switches", &headers).0
    };
    assert_eq!(request(&server, "GET /v1/switches", LOCAL).0, 200);
    assert_eq!(post(LOCAL, r#"{"a":1}"#), 405);
    assert_eq!(post(&bearer(&token), "{}"), 403);
    assert_eq!(post(LOCAL, &"x".repeat(5000)), 405);
    drop(server);
    wait_for_line(&audit);
    let deadline = clock::now() + Duration::from_secs(10);
    let lines = loop {
        let text = fs::read_to_string(&audit).unwrap();
        if text.lines().count() == 3 {
            break text;
        }
        assert!(clock::now() < deadline, "{text}");
    };
    let lines: Vec<_> = lines.lines().collect();
    assert!(lines[0].contains(r#""body":"{\"a\":1}","status":405"#), "{}", lines[0]);
    assert!(lines[0].contains(r#""who":"local","from":"127.0.0.1:"#), "{}", lines[0]);
    assert!(lines[1].contains(r#""who":"token script""#), "{}", lines[1]);
    assert!(lines[1].contains(r#""status":403"#), "{}", lines[1]);
    assert!(lines[2].contains(r#"x","body_sha256":""#) && lines[2].len() < 1500, "{}", lines[2]);
}

#[test]
fn without_a_record_nothing_is_written_if_that_is_required() {
    let access = |is_required| AccessConfig {
        audit: AuditTarget::File("/dev/full".into()),
        audit_required: is_required,
        ..AccessConfig::default()
    };
    let server = with_access(access(true));
    let (status, answer) = request(&server, WRITE, LOCAL);
    assert_eq!(status, 503, "{answer}");
    assert!(answer.contains("audit_unavailable"), "{answer}");
    assert_eq!(request(&server, "GET /v1/switches", LOCAL).0, 200);
    server.apply(access(false));
    assert_eq!(request(&server, WRITE, LOCAL).0, 405);
    let deadline = clock::now() + Duration::from_secs(10);
    loop {
        let (_, metrics) = request(&server, "GET /metrics", LOCAL);
        let lost =
            metrics.lines().find_map(|it| it.strip_prefix("sluice_api_audit_lines_lost_total "));
        // The attempt, its end, and the second write.
        if lost == Some("3") {
            break;
        }
        assert!(clock::now() < deadline, "{metrics}");
    }
}
