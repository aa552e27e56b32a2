"""What are huge pages worth for large tables?"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

small = lab.variant("small-pages", "crates/io/src/huge_pages.rs", "s/HUGE_PAGE: usize = 2 << 20/HUGE_PAGE: usize = 2 << 40/")
lab.compare_variants("huge-pages", [("small pages", small)], lab.HOSTS)
