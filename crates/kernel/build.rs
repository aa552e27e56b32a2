//! Compiles the BPF programs with clang. Without clang, the crate is built without them, and says so when one is to be loaded.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In the folder `bpf`.
const PROGRAMS: [&str; 2] = ["answers", "syn_filter"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_program)");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=SLUICE_CLANG");
    let clang = env::var("SLUICE_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let folder = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    match PROGRAMS.iter().try_for_each(|name| compile(&clang, name, &folder)) {
        Ok(()) => println!("cargo::rustc-cfg=has_program"),
        Err(reason) => {
            println!("cargo::warning=built without the programs for the kernel: {reason}");
        }
    }
}

fn compile(clang: &str, name: &str, folder: &Path) -> Result<(), String> {
    let source = format!("bpf/{name}.bpf.c");
    let mut command = Command::new(clang);
    // Version 3 has atomic operations with a result.
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c"]).arg(source);
    // The type information of the program contains file names: without the folder of this checkout.
    command.arg("-fdebug-compilation-dir=.");
    // Debian keeps the headers of the architecture, which those of Linux include, in a folder of its own.
    if let Ok(arch) = env::var("CARGO_CFG_TARGET_ARCH") {
        command.arg(format!("-I/usr/include/{arch}-linux-gnu"));
    }
    let output = command.arg("-o").arg(folder.join(format!("{name}.o"))).output();
    let output = output.map_err(|error| format!("{clang} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| line.contains("error")).unwrap_or("no message");
    Err(format!("{clang} failed: {first}"))
}
