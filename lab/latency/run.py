"""How long does a single request take, sleeping and polling?"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

ONE = ["-s", "1", "-l", "4", "-m", "500", "-M", "1000"]
SPIN = ["--spin", "200"]
lab.table("one outstanding request on one switch", "null p50 µs", "sluice p50 µs", "ratio", "null p99 µs", "sluice p99 µs")
for name, file, spin in (("sleeping", "sleeping", []), ("polling, both ends", "spinning", SPIN)):
    subjects = [lab.null(*spin), lab.learning(*spin)]
    got = lab.compare(f"latency/{file}", subjects, [*ONE, *spin], lab.rounds())
    null, ours = got["null"], got["sluice"]
    ratio = ours["p50_us"] / null["p50_us"]
    tails = (f"{null['p99_us']:.1f}", f"{ours['p99_us']:.1f}")
    lab.row(name, f"{null['p50_us']:.1f}", f"{ours['p50_us']:.1f}", f"{ratio:.2f}", *tails)
    for subject in subjects:
        subject.stop()

SIXTEEN = ["-s", "16", "-l", "4", "-m", "500", "-M", "1000"]
print()
lab.table("one outstanding request on each of 16 switches", "null answers/s", "sluice answers/s", "ratio")
for version in ("1.0", "1.3"):
    for name, options in (("buffered", []), ("not buffered", ["--no-buffer"])):
        subjects = [lab.null("--match", "port-pair", *options), lab.learning()]
        file = f"latency/sixteen-{version}-{name.replace(' ', '-')}"
        got = lab.compare(file, subjects, [*SIXTEEN, "--openflow", version, *options], lab.rounds())
        null, ours = got["null"]["per_second"], got["sluice"]["per_second"]
        lab.row(f"{version}, {name}", f"{null:,.0f}", f"{ours:,.0f}", f"{ours / null:.2f}")
        for subject in subjects:
            subject.stop()
