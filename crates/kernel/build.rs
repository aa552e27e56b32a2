//! Compiles the BPF program with clang. Without clang, the crate is built without it, and says so when it is to be loaded.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "bpf/answers.bpf.c";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_program)");
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=SLUICE_CLANG");
    let clang = env::var("SLUICE_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let folder = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    match compile(&clang, &folder.join("answers.o")) {
        Ok(()) => println!("cargo::rustc-cfg=has_program"),
        Err(reason) => {
            println!("cargo::warning=built without the in-kernel engine: {reason}");
        }
    }
}

fn compile(clang: &str, object: &Path) -> Result<(), String> {
    let mut command = Command::new(clang);
    // Version 3 has atomic operations with a result.
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c", SOURCE]);
    // The type information of the program contains file names: without the folder of this checkout.
    command.arg("-fdebug-compilation-dir=.");
    // Debian keeps the headers of the architecture, which those of Linux include, in a folder of its own.
    if let Ok(arch) = env::var("CARGO_CFG_TARGET_ARCH") {
        command.arg(format!("-I/usr/include/{arch}-linux-gnu"));
    }
    let output = command.arg("-o").arg(object).output();
    let output = output.map_err(|error| format!("{clang} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| line.contains("error")).unwrap_or("no message");
    Err(format!("{clang} failed: {first}"))
}
