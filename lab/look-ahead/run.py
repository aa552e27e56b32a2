"""How many packets should be prefetched if the table is large?"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

FILE = "crates/apps/src/learning/bridge.rs"
variants = [
    (f"{n} packets", lab.variant(f"ahead-{n}", FILE, f"s/PREFETCH_WINDOW: usize = 32/PREFETCH_WINDOW: usize = {n}/"))
    for n in (1, 8, 128)
]
lab.compare_variants("look-ahead", variants, lab.HOSTS[1:])
