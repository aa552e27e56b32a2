//! Embeds the OpenAPI document, and the web page, which `make web` builds. Without it, the crate is built without the page and answers with a
//! text instead.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// The OpenAPI document, relative to this crate.
const OPENAPI: &str = "../../docs/openapi.json";

/// Where `make web` writes the page, relative to this crate.
const FOLDER: &str = "../../web/dist";

fn main() -> io::Result<()> {
    // The folder itself is a part of the checkout, so that this is run again only if something in it has changed.
    println!("cargo::rerun-if-changed={FOLDER}");
    let root = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let folder = root.join(FOLDER);
    let files = files(&folder)?;
    if !files.iter().any(|name| name == "index.html") {
        println!("cargo::warning=built without the web page: `make web` builds it");
    }
    let table = table(&folder, &files)?;
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("web_files.rs"), table)?;
    println!("cargo::rerun-if-changed={OPENAPI}");
    fs::write(out.join("openapi.json.gz"), gzip(&read(&root.join(OPENAPI))?)?)
}

/// The content of a file, or an error that names it.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}

/// Paths of the files of the page below its folder, in order, without their compressed forms.
fn files(folder: &Path) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    for (at, prefix) in [(folder.to_owned(), ""), (folder.join("assets"), "assets/")] {
        if !at.is_dir() {
            continue;
        }
        for entry in fs::read_dir(at)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_file() && media_type(&name).is_some() {
                all.push(format!("{prefix}{name}"));
            }
        }
    }
    all.sort();
    Ok(all)
}

fn media_type(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        "txt" => Some("text/plain; charset=utf-8"),
        _ => None,
    }
}

/// The source of a table with all files and their compressed forms.
fn table(folder: &Path, files: &[String]) -> io::Result<String> {
    let mut out = format!("static FILES: [WebFile; {}] = [\n", files.len());
    for name in files {
        let (plain, packed) = (folder.join(name), folder.join(format!("{name}.gz")));
        let content = read(&plain)?;
        let tag = fingerprint(&content);
        let mut unpacked = Vec::new();
        GzDecoder::new(&*read(&packed)?).read_to_end(&mut unpacked)?;
        if unpacked != content {
            let error = format!("{} is not {name}: build the page again", packed.display());
            return Err(io::Error::other(error));
        }
        let packed = packed.to_string_lossy();
        let media_type = media_type(name).unwrap_or_default();
        let entry = format!(
            "    WebFile {{ path: {:?}, media_type: {media_type:?}, tag: \"\\\"{tag:016x}\\\"\", \
             packed: include_bytes!({packed:?}), plain: OnceLock::new() }},",
            format!("/{}", name.trim_start_matches("index.html")),
        );
        // Cannot fail: this is a string.
        let _ = writeln!(out, "{entry}");
    }
    Ok(out + "];\n")
}

/// Differs between two versions of a file (FNV-1a).
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
