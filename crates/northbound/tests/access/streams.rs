//! Replies that last end when their client loses its access.

use std::io::{Read as _, Write as _};

use sluice_northbound::AccessConfig;
use sluice_northbound::tokens::Role;

use super::bearer;
use super::test_server::{Folder, connect, with_access};

#[test]
fn replies_that_last_end_when_their_token_is_removed() {
    let folder = Folder::new("revoked");
    let token = folder.add_token("o", Role::Operate, None);
    let server = with_access(AccessConfig {
        tokens: Some(folder.tokens()),
        local_role: None,
        ..AccessConfig::default()
    });
    let paths = ["/v1/events", "/v1/capture?format=json"];
    let streams = paths.map(|path| {
        let mut stream = connect(&server);
        write!(stream, "GET {path} HTTP/1.1\r\n{}\r\n", bearer(&token)).unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
        stream
    });
    folder.remove_tokens();
    for mut stream in streams {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(r#""reason":"access-revoked""#), "{answer}");
    }
}
