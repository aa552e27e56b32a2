"""The intervals of `sluice study compare`, as in crates/study/src/interval.rs, and what they find by chance.

`recompute` applies them to samples that were taken before; `simulate` draws samples of known distributions.
"""

import functools
import math
import random

RATIO_ERROR = 0.04
BUCKET = 1 / 1024
BUCKET_MIN_US = 0.016
ROUNDING = 1e-12
LATENCIES = ("mean_us", "min_us", "p50_us", "p90_us", "p99_us", "p999_us", "processing_us")


def student_within(freedom, t):
    """The probability that a variable with Student's t distribution is within ±t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    freedom = min(freedom, 1000)
    angle = math.atan(t / math.sqrt(freedom))
    sin, cos = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2 == 1
    term = cos if is_odd else 1.0
    total = 0.0 if freedom == 1 else term
    for power in range(3 if is_odd else 2, freedom - 1, 2):
        term *= cos * cos * (power - 1) / power
        total += term
    return (angle + sin * total) * 2 / math.pi if is_odd else sin * total


@functools.lru_cache(None)
def student_quantile(freedom, error):
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - student_within(freedom, middle) > error else (low, middle)
    return high


def mean_and_variance(values):
    """The mean, and the variance of that mean."""
    n = len(values)
    mean = sum(values) / n
    return mean, sum((it - mean) ** 2 for it in values) / (n - 1) / n


def bounds(value, variances, samples, error):
    """Those of a logarithm, by Student's t distribution with the degrees of freedom of Welch."""
    variance = sum(variances)
    divisor = sum(v * v / (n - 1) for v, n in zip(variances, samples))
    freedom = variance * variance / divisor if divisor > 0 else sum(samples) - 2
    distance = student_quantile(int(max(1, freedom + ROUNDING)), error) * math.sqrt(variance)
    return value - distance, value + distance


def resolution(metric, means):
    mean = min(means)
    return max(BUCKET, BUCKET_MIN_US / mean) if mean > 0 and metric in LATENCIES else 0.0


def interval(metric, first, second, error):
    """That of the ratio of the means, `second` / `first`; all values are greater than 0."""
    samples = [len(first), len(second)]
    sides = [mean_and_variance(first), mean_and_variance(second)]
    means = [mean for mean, _ in sides]
    relative = [variance / mean**2 for mean, variance in sides]
    low, high = bounds(math.log(means[1] / means[0]), relative, samples, error)
    sides = [mean_and_variance([math.log(it) for it in values]) for values in (first, second)]
    other = bounds(sides[1][0] - sides[0][0], [variance for _, variance in sides], samples, error)
    margin = max(resolution(metric, means), ROUNDING)
    return [math.exp(min(low, other[0]) - margin), math.exp(max(high, other[1]) + margin)]


def is_within(bounds):
    return bounds[0] <= 1 <= bounds[1]


def recompute(rows, samples):
    """Replaces the intervals in the rows of one comparison by those of `samples`: the figures of each round of both controllers."""
    figures = {
        row["metric"]: [[it[row["metric"]] for it in side] for side in samples]
        for row in rows
        if row["ratio"] is not None
    }
    known = {name: sides for name, sides in figures.items() if min(map(min, sides)) > 0}
    shown = [row for row in rows if row["metric"] == "rate"]
    for row in rows:
        sides = known.get(row["metric"])
        if sides is None:
            continue
        means = [sum(side) / len(side) for side in sides]
        assert all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(means, row["means"])), row["metric"]
        row["interval"] = interval(row["metric"], *sides, RATIO_ERROR / len(known))
        row["joint_interval"] = interval(row["metric"], *sides, RATIO_ERROR / len(shown))
        if is_within(row["interval"]):
            row["change"] = "same"
        elif row["better"] is None:
            row["change"] = "differs"
        else:
            is_better = (row["interval"][0] > 1) == (row["better"] == "higher")
            row["change"] = "better" if is_better else "worse"


def differing(sides):
    """The metrics in which two sets of samples differ."""
    known = [name for name in sides[0][0] if min(it[name] for side in sides for it in side) > 0]
    values = {name: [[it[name] for it in side] for side in sides] for name in known}
    return [name for name in known if not is_within(interval(name, *values[name], RATIO_ERROR / len(known)))]


def share_with_difference(draw, n, error, number=2000):
    """The share of comparisons in which any figure differs; `draw` returns the figures of `n` samples of both sides."""
    found = 0
    for _ in range(number):
        first, second = draw(n)
        found += any(not is_within(interval("", a, b, error)) for a, b in zip(first, second))
    return found / number


def simulate(same):
    """Prints the share of comparisons of equal distributions that show a difference, and of others with a known factor."""
    rng = random.Random(1)
    metrics = sorted(name for name in same[0] if min(it[name] for it in same) > 0)

    def resampled(n):
        drawn = rng.sample(same, 2 * n)
        return [[[it[name] for it in side] for name in metrics] for side in (drawn[:n], drawn[n:])]

    def independent(value, factor=1.0):
        def draw(n):
            first, second = ([[value() for _ in range(n)] for _ in range(12)] for _ in range(2))
            second[0] = [factor * it for it in second[0]]
            return first, second

        return draw

    gauss = lambda deviation: lambda: max(0.01, rng.gauss(1, deviation))
    kinds = [
        (f"{len(metrics)} figures of the rounds of `same`, drawn without replacement", resampled),
        ("12 normal figures, deviation 5 %", independent(gauss(0.05))),
        ("12 normal figures, deviation 20 %", independent(gauss(0.2))),
        ("12 log-normal figures, deviation of the logarithm 0.5", independent(lambda: math.exp(rng.gauss(0, 0.5)))),
        ("12 log-normal figures, deviation of the logarithm 1", independent(lambda: math.exp(rng.gauss(0, 1)))),
        ("12 Pareto figures, exponent 1.5", independent(lambda: rng.paretovariate(1.5))),
        ("12 normal figures, deviation 2 %, one sample of ten is 50 % greater",
         independent(lambda: rng.gauss(1, 0.02) + 0.5 * (rng.random() < 0.1))),
    ]
    print("\n| distribution | 3 samples | 5 samples | 10 samples |\n| --- | --- | --- | --- |")
    for name, draw in kinds:
        shares = [share_with_difference(draw, n, RATIO_ERROR / 12) for n in (3, 5, 10)]
        print(f"| {name} | " + " | ".join(f"{100 * it:.1f} %" for it in shares) + " |")
    print("\n| deviation, factor | 3 samples | 5 samples | 10 samples |\n| --- | --- | --- | --- |")
    for deviation, factor in ((0.02, 1.05), (0.02, 1.1), (0.05, 1.1), (0.05, 1.2), (0.05, 1.3), (0.1, 1.3), (0.2, 1.5)):
        draw = independent(gauss(deviation), factor)
        shares = [share_with_difference(draw, n, RATIO_ERROR / 12) for n in (3, 5, 10)]
        print(f"| {100 * deviation:.0f} %, {factor} | " + " | ".join(f"{100 * it:.0f} %" for it in shares) + " |")
