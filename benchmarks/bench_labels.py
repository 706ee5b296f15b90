"""How many labels certificates need: ``setpoint.labelling`` compared with labelling at random.

1. *A floor on precision.* Splits and trees as in ``bench_promise.py``. The calibration rows are the
   pool, the training rows (scored by cross-validation) are the planning rows of all methods.
   ``certify`` gets all labels of the pool, or as many random ones as ``certify_pool`` used. Recall
   is measured on test rows, and is 0 where nothing is certified.
2. *Floors on precision and recall.* Random labelling draws n rows of the pool and certifies both
   floors on them with a plan from the same planning rows: all thresholds at once, a sequence of 200
   or a single one; the best of the three is taken. The number of labels it needs is the smallest
   n, in steps of 10 %, with which at least 16 of 20 splits are certified. That of ``certify_pool``
   is the mean over all splits, certified or not, provided that 16 are certified.
3. *The sets of SUPG* (Kang et al., 2020), floor 0.9 on precision, delta 0.1. A run draws a pool
   with replacement from the set, so that the set is the population and the truth is known. BARGAIN
   (``pip install bargain``) takes part if it is installed. The package ``supg`` on PyPI is empty;
   SUPG's figures are those of an earlier measurement with its authors' code. Both select rows of
   the set itself, and count labelled positives as found. For that task, if all rows above a cut are
   labelled, nothing need be certified: their precision is known (last rows).

The constants of planning and stopping were chosen on the splits 0 to 19; the splits 20 to 39, the
default, had no part in that (``--first 0`` shows the others).

Finished splits are stored in a file, from which an interrupted run continues.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _data import path
from _label_scores import Scored, Split, split_of
from _stored import PACKAGE, digest, run_missing
from setpoint import Goal, certify
from setpoint._internal.provenance import machine
from setpoint.certificates import certify_best
from setpoint.certificates.sequence import Rows
from setpoint.errors import SetpointError
from setpoint.labelling import PoolCertificate, certify_pool

PRECISION = {"creditcard": 0.9, "celeba": 0.5, "campaign": 0.6, "mammography": 0.8}
BOTH = {"celeba": (0.3, 0.6), "campaign": (0.5, 0.7), "creditcard": (0.8, 0.6)}
FEWER = {"creditcard": 20, "celeba": 20, "mammography": 20}  # the targets
FEWER_BOTH = {"celeba": 3, "creditcard": 3, "campaign": 2}
CONFIDENCE = 0.9
METHODS = ("simultaneous", "sequence", "split")
ALL, SEQUENCE = "certify, all labels", "certify, all labels, a sequence"
SOME = "certify, as many random labels"
MOST = 0.8  # of the splits must be certified
STEP = 1.1
SUPG = ("imagenet", "onto", "tacred")
BUDGETS = (100, 300, 1000)
RUNS = 200
EARLIER = {  # recall on the three sets
    "certify on random labels, 1,000": (0.0, 0.0, 0.0),
    "SUPG, 1,000": (0.0, 0.18, 0.01),
}


# --- one split ------------------------------------------------------------------------------------


def run_precision(name: str, seed: int) -> list[dict[str, Any]]:
    """Return labels used and counts on the test rows, for every method."""
    split, goal = split_of(name, seed), f"max recall s.t. precision >= {PRECISION[name]}"
    y, scores = split.pool
    ours = ask(split, goal, seed)
    some = np.random.default_rng([seed, 1]).permutation(len(y))[: max(1, ours.labels)]
    found = {
        ALL: (len(y), certify(y, scores, goal, planning_rows=split.planning)),
        SEQUENCE: (len(y), certify(y, scores, goal, method="sequence", random_state=seed)),
        SOME: (len(some), certify(y[some], scores[some], goal, planning_rows=split.planning)),
        "certify_pool": (ours.labels, ours),
    }  # fmt: skip
    return [
        {
            "part": "precision", "data": name, "seed": seed, "method": method, "labels": labels,
            "certified": c.certified,
            **on_test(split.test, c.threshold if c.certified else np.inf),
        }
        for method, (labels, c) in found.items()
    ]  # fmt: skip


def run_both(name: str, seed: int) -> list[dict[str, Any]]:
    """Return labels used by ``certify_pool``, and which numbers of random labels were enough."""
    split = split_of(name, seed)
    goal = both_goal(name)
    try:
        ours = ask(split, goal, seed)
        labels, certified, threshold = ours.labels, ours.certified, ours.threshold
    except SetpointError:  # hopeless by the planning rows
        labels, certified, threshold = 0, False, None
    y, scores = split.pool
    order = np.random.default_rng([seed, 2]).permutation(len(y))
    planning = Rows.of(*split.planning)
    enough = {}
    for method in METHODS:
        enough[method] = [
            n
            for n in sizes(len(y))
            if certify_best(
                planning, Rows.of(y[order[:n]], scores[order[:n]]), Goal.parse(goal), CONFIDENCE,
                on="random rows", method=method,
            ).certified
        ]  # fmt: skip
    return [
        {
            "part": "both", "data": name, "seed": seed, "labels": labels, "certified": certified,
            "pool": len(y), "enough": enough,
            **on_test(split.test, np.inf if threshold is None else threshold),
        }
    ]  # fmt: skip


def ask(split: Split, goal: str, seed: int) -> PoolCertificate:
    return certify_pool(
        split.pool.scores, goal, lambda rows: split.pool.y[rows], confidence=CONFIDENCE,
        planning=(split.planning.y, split.planning.scores), seed=seed,
    )  # fmt: skip


def both_goal(name: str) -> str:
    precision, recall = BOTH[name]
    return f"max recall s.t. precision >= {precision}, recall >= {recall}"


def sizes(pool: int) -> list[int]:
    found = [500.0]
    while found[-1] < pool:
        found.append(found[-1] * STEP)
    return [min(pool, round(n)) for n in found]


def on_test(test: Scored, threshold: float) -> dict[str, int]:
    alarms = test.scores > threshold
    return {
        "tp": int(np.count_nonzero(test.y & alarms)), "alarms": int(np.count_nonzero(alarms)),
        "positives": int(np.count_nonzero(test.y)),
    }  # fmt: skip


def run_supg(name: str, run: int) -> list[dict[str, Any]]:
    """Return recall and precision in the set, for every number of labels."""
    import pandas as pd

    table = pd.read_parquet(path("supg.parquet"))
    table = table[table["set"] == name]
    y, scores = table.label.to_numpy() == 1, table.proxy_score.to_numpy(dtype=float)
    rows = np.random.default_rng([run, 3]).integers(0, len(y), len(y))
    found = []
    for budget in BUDGETS:
        for method, eta in (("no guess", None), ("the score as a guess", scores[rows])):
            c = certify_pool(
                scores[rows], "max recall s.t. precision >= 0.9", lambda i: y[rows[i]],
                confidence=CONFIDENCE, budget=budget, eta=eta, seed=run,
            )  # fmt: skip
            alarms = scores > (c.threshold if c.threshold is not None else np.inf)
            tp = int(np.count_nonzero(y & alarms))
            found.append(
                {
                    "part": "supg", "data": name, "seed": run, "budget": budget, "method": method,
                    "labels": c.labels, "certified": c.certified, "recall": tp / int(y.sum()),
                    "missed": bool(c.certified and tp < 0.9 * np.count_nonzero(alarms)),
                }
            )  # fmt: skip
    return found


def run_bargain(name: str, run: int) -> list[dict[str, Any]]:
    """Return recall and precision of the rows that BARGAIN selects; none if it is not installed."""
    import sys
    import types

    import pandas as pd

    # BARGAIN imports it for its models, which are not used here.
    sys.modules.setdefault("openai", types.ModuleType("openai")).OpenAI = None  # type: ignore
    try:
        from BARGAIN.process.BARGAIN_P import BARGAIN_P
    except ImportError:
        return []
    table = pd.read_parquet(path("supg.parquet"))
    table = table[table["set"] == name]
    y, scores = table.label.to_numpy(), table.proxy_score.to_numpy(dtype=float)

    class Models:
        """The scores as a proxy, and the labels as an oracle."""

        def reset(self) -> None:
            self.asked: set[int] = set()

        def get_preds_and_scores(self, rows: Any, records: Any) -> tuple[Any, Any]:
            return np.ones(len(rows)), scores[rows]

        def get_pred(self, records: Any, rows: Any) -> Any:
            self.asked.update(np.asarray(rows).tolist())
            return y[rows]

    found = []
    for budget in BUDGETS:
        for M in (20, 2000):
            models = Models()
            method = BARGAIN_P(models, models, 0.1, 0.9, budget, M, seed=run)
            chosen = np.array(method.process(np.arange(len(y))), dtype=int)
            tp = int(y[chosen].sum())
            found.append(
                {
                    "part": "bargain", "data": name, "seed": run, "budget": budget,
                    "method": f"M = {M}", "labels": len(models.asked), "recall": tp / int(y.sum()),
                    "missed": bool(tp < 0.9 * len(chosen)),
                }
            )  # fmt: skip
    return found


RUN = {"precision": run_precision, "both": run_both, "supg": run_supg, "bargain": run_bargain}


def run(part: str, name: str, seed: int) -> list[dict[str, Any]]:
    return RUN[part](name, seed)


# --- tables ---------------------------------------------------------------------------------------


def table_precision(results: list[dict[str, Any]], names: Sequence[str]) -> None:
    print("| data | floor | method | certified | labels | recall | precision |")
    print("|---" * 7 + "|")
    for name in names:
        means = {}
        for method in (ALL, SEQUENCE, SOME, "certify_pool"):
            rows = [r for r in results if (r["data"], r.get("method")) == (name, method)]
            labels = np.mean([r["labels"] for r in rows])
            recall = np.mean([r["tp"] / r["positives"] for r in rows])
            certified = sum(r["certified"] for r in rows)
            alarms = sum(r["alarms"] for r in rows)
            precision = f"{sum(r['tp'] for r in rows) / alarms:.3f}" if alarms else ""
            means[method] = labels, recall
            print(
                f"| {name} | {PRECISION[name]} | {method} | {certified} of {len(rows)} "
                f"| {labels:,.0f} | {recall:.3f} | {precision} |"
            )
        if name in FEWER:
            (every, best), (_, before), (ours, now) = (
                means[m] for m in (ALL, SEQUENCE, "certify_pool")
            )
            held = verdict(every / ours >= FEWER[name] and now >= before)
            print(
                f"\n{name}: {every / ours:.0f} times fewer labels than all; recall "
                f"{now - before:+.3f} compared with the sequence: {held}; "
                f"{now - best:+.3f} compared with all thresholds at once\n"
            )


def table_both(results: list[dict[str, Any]], names: Sequence[str]) -> None:
    print("| data | floors | method | certified | labels | recall | precision |")
    print("|---" * 7 + "|")
    for name in names:
        rows = [r for r in results if r["data"] == name]
        floors = ", ".join(map(str, BOTH[name]))
        certified, labels = sum(r["certified"] for r in rows), np.mean([r["labels"] for r in rows])
        held = [r for r in rows if r["certified"]]
        recall = np.mean([r["tp"] / r["positives"] for r in held]) if held else 0
        precision = sum(r["tp"] for r in held) / max(1, sum(r["alarms"] for r in held))
        needed: float = np.inf
        for method in METHODS:
            for n in sizes(rows[0]["pool"]):
                if np.mean([n in r["enough"][method] for r in rows]) >= MOST:
                    needed = min(needed, n)
                    break
        pool = rows[0]["pool"]
        at_random = f"{needed:,.0f}" if np.isfinite(needed) else f"more than {pool:,}"
        print(f"| {name} | {floors} | random labels | {MOST:.0%} | {at_random} | | |")
        print(
            f"| {name} | {floors} | certify_pool | {certified} of {len(rows)} | {labels:,.0f} "
            f"| {recall:.3f} | {precision:.3f} |"
        )
        times = min(needed, pool) / max(labels, 1)
        enough = times >= FEWER_BOTH[name] and certified >= MOST * len(rows)
        print(f"\n{name}: {times:.1f} times fewer labels: {verdict(enough)}\n")


def table_supg(results: list[dict[str, Any]], bargain: list[dict[str, Any]]) -> None:
    import pandas as pd

    print(f"| method, labels | {' | '.join(f'{name}: recall (missed)' for name in SUPG)} |")
    print("|---" * 4 + "|")
    for method, recalls in EARLIER.items():
        print(f"| {method} (earlier measurement) | {' | '.join(f'{r:.2f}' for r in recalls)} |")
    of = {"BARGAIN": bargain, "certify_pool": results} if bargain else {"certify_pool": results}
    for who, method in [
        (w, m) for w, rs in of.items() for m in dict.fromkeys(r["method"] for r in rs)
    ]:
        for budget in BUDGETS:
            cells = []
            for name in SUPG:
                key = (name, budget, method)
                rows = [r for r in of[who] if (r["data"], r["budget"], r["method"]) == key]
                recall, missed = (np.mean([r[k] for r in rows]) for k in ("recall", "missed"))
                cells.append(f"{recall:.2f} ({missed:.1%})")
            print(f"| {who}, {method}, {budget} | {' | '.join(cells)} |")
    table = pd.read_parquet(path("supg.parquet"))
    for budget in (*BUDGETS, None):
        cells = [f"{recall_in_the_set(table[table['set'] == name], budget):.2f}" for name in SUPG]
        what = "best threshold" if budget is None else f"the set itself, from the top, {budget}"
        print(f"| {what} | {' | '.join(cells)} |")
    for budget in BUDGETS:
        tops = [
            table[table["set"] == name].sort_values("proxy_score", ascending=False).label
            for name in SUPG
        ]
        cells = [f"{top[:budget].sum() / top.sum():.2f}" for top in tops]
        print(f"| the same, labelled positives count as found, {budget} | {' | '.join(cells)} |")


def recall_in_the_set(table: Any, budget: int | None) -> float:
    """Return the recall at the lowest cut whose precision is known to be 0.9 or more."""
    table = table.sort_values("proxy_score", ascending=False, kind="stable")
    y, scores = table.label.to_numpy(), table.proxy_score.to_numpy()
    tp, k = np.cumsum(y), np.arange(1, len(y) + 1)
    ends = np.append(scores[1:] != scores[:-1], True) & (tp >= 0.9 * k)
    if budget is not None:
        ends &= k <= budget
    return float(tp[ends].max() / y.sum()) if ends.any() else 0.0


def verdict(held: bool) -> str:
    return "met" if held else "NOT met"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="*", default=list(RUN), choices=list(RUN), metavar="PART")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--first", type=int, default=20, help="seed of the first split")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("build/labels.jsonl"))
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.splits)
    jobs: list[tuple[str, str, int]] = []
    if "precision" in given.part:
        jobs += [("precision", n, s) for n in PRECISION for s in seeds]
    if "both" in given.part:
        jobs += [("both", n, s) for n in BOTH for s in seeds]
    if "supg" in given.part:
        jobs += [("supg", n, s) for n in SUPG for s in range(given.runs)]
    if "bargain" in given.part:
        jobs += [("bargain", n, s) for n in SUPG for s in range(given.runs // 4)]
    code = digest(PACKAGE / "labelling", PACKAGE / "certificates", Path(__file__))
    results = run_missing(
        given.keep, jobs, run, lambda row: (row["part"], row["data"], row["seed"]), given.jobs, code
    )
    wanted = set(jobs)
    results = [r for r in results if (r["part"], r["data"], r["seed"]) in wanted]
    by_part = {p: [r for r in results if r["part"] == p] for p in RUN}
    print(machine(), "\n")
    if "precision" in given.part:
        table_precision(by_part["precision"], list(PRECISION))
    if "both" in given.part:
        table_both(by_part["both"], list(BOTH))
    if "supg" in given.part:
        table_supg(by_part["supg"], by_part["bargain"])


if __name__ == "__main__":
    main()
