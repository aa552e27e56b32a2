"""How many bytes should be read at a time?"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

FILE = "crates/io/src/epoll.rs"
variants = [
    (f"{kib} KiB", lab.variant(f"read-{kib}", FILE, f"s/READ_BYTES_MAX: usize = 128 << 10/READ_BYTES_MAX: usize = {kib} << 10/"))
    for kib in (32, 64, 256)
]
lab.compare_variants("read-size", variants, lab.HOSTS)
