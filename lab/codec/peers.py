"""Other implementations to compare with: their sources, and how they are built outside of the checkout.

Packages come from their registries. LIBFLUID and LIBOPENFLOW are git directories of
OpenNetworkingFoundation/libfluid_msg and antrea-io/libOpenflow. An implementation that cannot be built is left out,
and the reason is printed.
"""

import os
import pathlib
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "sluice-lab-codec"
OSKEN = "3.1.1"


class Missing(Exception):
    """The reason why an implementation is left out."""


def run(*command, at=None, env=None):
    result = subprocess.run([str(word) for word in command], cwd=at, capture_output=True, text=True, env=env)
    if result.returncode != 0:
        raise Missing(f"`{' '.join(map(str, command))}` failed: {(result.stderr or result.stdout).strip()[-300:]}")
    return result.stdout.strip()


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Missing(f"{program} is not installed")


def empty_folder(name):
    folder = CACHE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def checkout(variable, name):
    """A copy of the git directory that an environment variable names, and its commit."""
    source = os.environ.get(variable)
    if not source:
        raise Missing(f"{variable} is not set")
    folder = CACHE / name
    if not folder.exists():
        run("git", "clone", "-q", source, folder)
    return folder, run("git", "log", "-1", "--format=%h of %cs", at=folder)


def ovs():
    """Debian's source package of Open vSwitch; only the library is built."""
    need("apt-get", "dpkg", "gcc", "make")
    folder, binary = CACHE / "ovs", CACHE / "ovs/cost"
    source = folder / "openvswitch"
    if not (source / "lib/libopenvswitch.la").exists():
        empty_folder("ovs")
        run("apt-get", "download", "openvswitch-source", at=folder)
        run("dpkg", "-x", next(folder.glob("*.deb")), folder)
        run("tar", "xzf", folder / "usr/src/openvswitch/openvswitch.tar.gz", at=folder)
        run("./configure", "--disable-ssl", "--disable-libcapng", "--disable-shared", "CFLAGS=-O2 -g", at=source)
        # Generated headers, which a complete build would make first.
        (source / "made.mk").write_text("include Makefile\nmade: $(BUILT_SOURCES)\n")
        run("make", "-j2", "-f", "made.mk", "made", at=source)
        run("make", "-j2", "lib/libopenvswitch.la", at=source)
    flags = ["-O2", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-I.", "-Iinclude", "-Ilib"]
    run("./libtool", "--mode=link", "gcc", *flags, HERE / "peer_ovs.c", "-o", binary, "lib/libopenvswitch.la", at=source)
    return [binary], next(folder.glob("*.deb")).name.split("_")[1]


def libfluid():
    need("git", "g++")
    folder, version = checkout("LIBFLUID", "libfluid_msg")
    binary = CACHE / "cost-libfluid"
    flags = ["-O2", "-g", "-w", f"-I{folder}", f"-I{folder}/fluid"]
    run("g++", *flags, HERE / "peer_libfluid.cc", *sorted(folder.glob("fluid/**/*.cc")), "-o", binary)
    return [binary], version


def rust(name, version):
    def build():
        need("cargo")
        target = CACHE / "rust"
        env = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        # A copy, so that no lock file is left in the checkout.
        shutil.copytree(HERE / "peer_rust", CACHE / "peer_rust", dirs_exist_ok=True)
        run("cargo", "build", "--release", at=CACHE / "peer_rust", env=env)
        return [target / "release/peer_rust", name], version

    return build


def libopenflow():
    need("git", "go")
    folder, version = checkout("LIBOPENFLOW", "libOpenflow")
    at = empty_folder("go")
    shutil.copy(HERE / "peer_go/main.go", at)
    run("go", "mod", "init", "peer", at=at)
    run("go", "mod", "edit", f"-replace=antrea.io/libOpenflow={folder}", "-require=antrea.io/libOpenflow@v0.0.0", at=at)
    run("go", "mod", "tidy", at=at)
    run("go", "build", "-o", "cost", ".", at=at)
    return [at / "cost"], version


def openflowj():
    need("mvn", "javac")
    at = empty_folder("java")
    for file in (HERE / "peer_java").iterdir():
        shutil.copy(file, at)
    run("mvn", "-q", "dependency:build-classpath", "-Dmdep.outputFile=classpath", at=at)
    classes = (at / "classpath").read_text()
    run("javac", "-cp", classes, "-d", at, "Cost.java", at=at)
    return ["java", "-cp", f"{at}:{classes}", "Cost"], "3.6.605"


def osken():
    python = lab.ROOT / f".cache/osken-{OSKEN}/bin/python"
    if not python.exists():
        raise Missing("scripts/setup.sh has not installed it")
    return [python, HERE / "peer_osken.py"], OSKEN


# Name, build function, and whether callgrind can count its instructions.
PEERS = [
    ("Open vSwitch (C)", ovs, True),
    ("libfluid_msg (C++)", libfluid, True),
    ("rust_ofp (Rust)", rust("rust_ofp", "0.2.1"), True),
    ("rovs-openflow (Rust)", rust("rovs", "0.2.0"), True),
    ("libOpenflow (Go)", libopenflow, False),
    ("openflowj (Java)", openflowj, False),
    ("os-ken (Python)", osken, False),
]
