"""Simulate the coverage of every interval and the size of every test that reports use.

Prints Markdown tables; ``--write PAGE`` puts them between the page's coverage markers. Same seed, same
tables. About two minutes for the published ``--reps 1000`` on one idle core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recurve_eval import stats
from recurve_eval.stats import Interval, PairedTable, Test
from recurve_eval.stats.resample import divided

Floats = NDArray[np.float64]
SIZES = (20, 50, 148)
RESAMPLES = 999
PAIRED = ((0.0, 0.02, 0.02), (0.05, 0.1, 0.1), (0.3, 0.2, 0.2), (0.94, 0.02, 0.02), (0.1, 0.15, 0.05))
START, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"


def covers(interval: object, truth: float) -> float:
    """1 or 0, or NaN where no interval was given."""
    if not isinstance(interval, Interval):
        return float("nan")
    return float(interval.low - 1e-12 <= truth <= interval.high + 1e-12)


def rejects(test: object, alpha: float = 0.05) -> float:
    """1 or 0; a test that is undefined does not reject."""
    return float(isinstance(test, Test) and test.p_value <= alpha)


def share(values: Floats) -> str:
    """Percent of the defined values, and how many of all were defined if not all."""
    known = values[~np.isnan(values)]
    if not len(known):
        return "none given"
    text = f"{100 * known.mean():.1f}"
    return text if len(known) == len(values) else f"{text} (given in {100 * len(known) / len(values):.0f}%)"


def table(title: str, header: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"**{title}**"
    yield ""
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    yield from ("| " + " | ".join(row) + " |" for row in rows)
    yield ""


def one_rate() -> Iterator[str]:
    from scipy.stats import binom

    rows = []
    for n in SIZES:
        inside = [stats.wilson(k, n).interval for k in range(n + 1)]
        for p in (0.02, 0.1, 0.5, 0.98):
            hit = np.array([covers(i, p) for i in inside])
            rows.append([str(n), f"{p:g}", f"{100 * float(binom.pmf(np.arange(n + 1), n, p) @ hit):.1f}"])
    header = ["n", "rate", "coverage, %"]
    yield from table("One rate, one seed: coverage of Wilson's 95% interval (exact)", header, rows)


def clustered_rate(rng: np.random.Generator, reps: int) -> Iterator[str]:
    rows = []
    for n in SIZES:
        for p in (0.02, 0.1, 0.5, 0.98):
            events = rng.binomial(3, rng.beta(p, 1 - p, size=(reps, n)))
            ours = np.array([covers(stats.wilson_clustered(e.tolist(), [3] * n).interval, p) for e in events])
            naive = np.array([covers(stats.wilson(int(e.sum()), 3 * n).interval, p) for e in events])
            rows.append([str(n), f"{p:g}", share(ours), share(naive)])
    header = ["tasks", "rate", "clustered Wilson, %", "Wilson on pooled seeds, % (not used)"]
    yield from table("One rate, three seeds a task (intra-task correlation 0.5): coverage", header, rows)


@cache
def paired_results(both: int, first: int, second: int, neither: int) -> tuple[object, object, float, float]:
    t = PairedTable(both, first, second, neither)
    return (
        stats.newcombe_paired(t).interval, stats.tango_paired(t).interval,
        rejects(stats.mcnemar_exact(t)), rejects(stats.mcnemar_midp(t)),
    )  # fmt: skip


def paired(rng: np.random.Generator, reps: int) -> Iterator[str]:
    rows = []
    for n in SIZES:
        for p11, p10, p01 in PAIRED:
            draws = rng.multinomial(n, [p11, p10, p01, 1 - p11 - p10 - p01], size=reps)
            found = [paired_results(*map(int, d)) for d in draws]
            newcombe = np.array([covers(f[0], p10 - p01) for f in found])
            tango = np.array([covers(f[1], p10 - p01) for f in found])
            exact, mid = (100 * float(np.mean([f[i] for f in found])) for i in (2, 3))
            kind = "size" if p10 == p01 else "power"
            rates = [f"{p11 + p10:.2f}, {p11 + p01:.2f}", f"{p10:g}, {p01:g}"]
            rows.append([str(n), *rates, share(newcombe), share(tango), f"{exact:.1f} ({kind})", f"{mid:.1f} ({kind})"])
    header = ["pairs", "rates", "discordance", "Newcombe 10, %", "Tango, %", "exact McNemar, %", "mid-p, %"]
    yield from table("Two rates, one seed: coverage of the difference; rejections at .05", header, rows)


def several_seeds(rng: np.random.Generator, reps: int) -> Iterator[str]:
    rows = []
    for n in SIZES:
        for p in (0.05, 0.3, 0.9):
            hits, flips, pooled = np.zeros(reps), np.zeros(reps), np.zeros(reps)
            for i in range(reps):
                theta = rng.beta(p, 1 - p, size=(n, 2))
                d = np.diff(rng.binomial(3, theta), axis=1)[:, 0] / 3
                sums = stats.resampled_sums(np.column_stack([d, np.ones(n)]), resamples=RESAMPLES, seed=i)
                hits[i] = covers(stats.expanded_percentile(sums[:, 0] / n, n), 0.0)
                flips[i] = rejects(stats.sign_flip(d.tolist()))
                up, down = int(d[d > 0].sum() * 3 + 0.5), int(-d[d < 0].sum() * 3 + 0.5)
                pooled[i] = rejects(stats.mcnemar_exact(PairedTable(0, up, down, 0)))
            rows.append([str(n), f"{p:g}", share(hits), share(flips), share(pooled)])
    header = ["tasks", "rate", "bootstrap coverage, %", "sign-flip size, %", "McNemar on pooled seeds, % (refused)"]
    yield from table("Two equal rates, three seeds a task: each arm has its own rate on each task", header, rows)


def end_to_end(rng: np.random.Generator, n: int, seeds: int, fdr: float, declare: float) -> tuple[Floats, ...]:
    """Two arms of equal FDR that make their own work: bad work correlates through the task's difficulty."""
    hard = rng.beta(2 * fdr, 2 * (1 - fdr), size=(n, 1))
    bad1, bad2 = rng.random((n, seeds)) < hard, rng.random((n, seeds)) < hard
    declared2 = rng.random((n, seeds)) < declare
    columns = (np.ones((n, seeds)), bad1, declared2, bad2 & declared2)
    return tuple(c.sum(axis=1).astype(float) for c in columns)


def false_discovery(rng: np.random.Generator, reps: int) -> Iterator[str]:
    rows = []
    for n, seeds in ((20, 1), (50, 1), (148, 1), (20, 3), (50, 3)):
        for fdr, declare in ((0.05, 0.6), (0.3, 0.6), (0.3, 1.0), (0.9, 0.6)):
            corrected, plain, cover = np.zeros(reps), np.zeros(reps), np.zeros(reps)
            for i in range(reps):
                columns = end_to_end(rng, n, seeds, fdr, declare)
                corrected[i] = rejects(stats.fdr_score(*columns))
                plain[i] = rejects(stats.fdr_score(*columns, correction=False))
                s = stats.resampled_sums(np.column_stack(columns), resamples=RESAMPLES, seed=i)
                gaps = divided(s[:, 3], s[:, 2]) - divided(s[:, 1], s[:, 0])
                cover[i] = covers(stats.expanded_percentile(gaps, n), 0.0)
            rows.append([str(n), str(seeds), f"{fdr:g}", f"{declare:g}", share(corrected), share(plain), share(cover)])
    found = ["corrected score size, %", "uncorrected score size, % (not used)", "bootstrap coverage, %"]
    header = ["tasks", "seeds", "FDR", "treatment declares", *found]
    yield from table("Equal FDR, end-to-end arms: size at .05 and coverage of the difference", header, rows)


def price_of_trust(rng: np.random.Generator, reps: int) -> Iterator[str]:
    """Skewed costs that the arms of a task share in part; the true ratio of means is 2."""
    rows = []
    for n in SIZES:
        for spread in (0.5, 1.0, 1.5):
            hits = np.zeros(reps)
            for i in range(reps):
                task = rng.normal(0, spread, size=(n, 1))
                costs = np.exp(task + rng.normal(0, spread / 2, size=(n, 2))) * (1, 2)
                s = stats.resampled_sums(costs, resamples=RESAMPLES, seed=i)
                hits[i] = covers(stats.expanded_percentile(divided(s[:, 1], s[:, 0]), n), 2.0)
            rows.append([str(n), f"{spread:g}", share(hits)])
    header = ["tasks", "spread of the logarithm between tasks", "bootstrap coverage, %"]
    yield from table("Price of trust, lognormal costs: coverage of the ratio of means", header, rows)


def several_arms(rng: np.random.Generator, reps: int) -> Iterator[str]:
    rows = []
    for n in SIZES:
        for p in (0.05, 0.3, 0.9):
            hard = rng.beta(2 * p, 2 * (1 - p), size=(reps, n, 1))
            events = (rng.random((reps, n, 4)) < hard).astype(int)
            rejected = [rejects(stats.cochran_q(e.tolist())) for e in events]
            rows.append([str(n), f"{p:g}", f"{100 * float(np.mean(rejected)):.1f}"])
    yield from table("Four equal arms, one seed: size of Cochran's Q at .05", ["tasks", "rate", "size, %"], rows)


def model_by_gate(rng: np.random.Generator, reps: int) -> Iterator[str]:
    """Two models of other ability whom a gate that catches half helps by as much: the difference of changes is 0."""
    rows = []
    for n in SIZES:
        for p in (0.1, 0.4, 0.9):
            hits, flips = np.zeros(reps), np.zeros(reps)
            for i in range(reps):
                hard = rng.beta(2 * p, 2 * (1 - p), size=(n, 1))
                bad = rng.random((n, 2)) < hard
                caught = bad & (rng.random((n, 2)) < 0.5)
                d = np.diff(-caught.astype(float), axis=1)[:, 0]
                s = stats.resampled_sums(np.column_stack([d, np.ones(n)]), resamples=RESAMPLES, seed=i)
                hits[i] = covers(stats.expanded_percentile(s[:, 0] / n, n), 0.0)
                flips[i] = rejects(stats.sign_flip(d.tolist()))
            rows.append([str(n), f"{p:g}", share(hits), share(flips)])
    header = ["tasks", "rate of bad work", "bootstrap coverage, %", "sign-flip size, %"]
    yield from table("Model by gate, equal effects: coverage of the difference of changes; size at .05", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=1000, help="simulated studies a line (1000)")
    parser.add_argument("--seed", type=int, default=20, help="seed of the simulation (20)")
    parser.add_argument("--write", type=Path, help="page whose coverage section is replaced")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    lines = [*one_rate(), *clustered_rate(rng, options.reps), *paired(rng, 4 * options.reps)]
    lines += [*several_seeds(rng, options.reps), *false_discovery(rng, options.reps)]
    lines += [*price_of_trust(rng, options.reps), *several_arms(rng, options.reps), *model_by_gate(rng, options.reps)]
    text = "\n".join(lines).rstrip() + "\n"
    if options.write is None:
        print(text)
        return
    page = options.write.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    options.write.write_text(f"{before}{START}\n\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
