"""Steps of trainings whose points are divided over the ranks, and the machine's own limit.

    python benchmarks/strong_scaling.py

runs one rank, two ranks, and two processes that do not communicate and each do the work of one
rank: two ranks cannot be faster than twice these. Prints milliseconds a step with one thread a
rank, and writes benchmarks/results/strong_scaling.json.
"""

from __future__ import annotations

from _runner import RESULTS, answer, parse, report, start

CASES = {
    "Adam, 64×3, 20,000 points": ("Adam", 30, 20_000, 64),
    "Levenberg–Marquardt, 24×3 (1,297), 3,000 points": ("LevenbergMarquardt", 15, 3_000, 24),
    "Levenberg–Marquardt, 35×3 (2,661), 12,000 points": ("LevenbergMarquardt", 5, 12_000, 35),
}
COLUMNS = {
    "ms a step": "name:<50",
    "1 rank": "one:10.1f",
    "2 ranks": "two:10.1f",
    "speed-up": "speed_up:10.2f",
    "two alone": "side_by_side:11.1f",
}


def main() -> None:
    parse(__doc__)
    one, two = (answer(start(work, ranks=ranks, threads=1)) for ranks in (1, 2))
    started = [start(work, ranks=1, threads=1) for _ in range(2)]
    together = [answer(process) for process in started]
    rows = []
    for name in CASES:
        times = {"one": one[name], "two": two[name], "speed_up": one[name] / two[name]}
        rows.append({"name": name, **times, "side_by_side": max(each[name] for each in together)})
    report(COLUMNS, rows, RESULTS / "strong_scaling.json")


def work() -> dict[str, float]:
    """Return milliseconds a step by case (collective)."""
    from _examples import two_scales

    import sciml_par as sp

    sp.init()
    results = {name: two_scales(*case) for name, case in CASES.items()}
    if sp.rank() > 0:
        return {}
    return {name: r.members[0].microseconds_per_step / 1e3 for name, r in results.items()}


if __name__ == "__main__":
    main()
