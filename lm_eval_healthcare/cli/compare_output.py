"""What `compare` prints: for people as text or markdown, for programs as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.tables import print_json, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lm_eval_healthcare.analysis.score_by_group import Trend
    from lm_eval_healthcare.results.paired_samples import Pairs, SampleScores
    from lm_eval_healthcare.results.run_comparison import ByColumn, MetricRow

_TESTS = {
    "mcnemar_exact": "McNemar, exact", "paired_t": "paired t", "cluster_t": "t, clustered",
    "cochran_armitage": "Cochran-Armitage", "linear_regression": "linear regression",
}  # fmt: skip


def show(
    args: argparse.Namespace, runs: Sequence[SampleScores], pairs: Pairs | None, rows: Sequence[MetricRow] | None,
    by: Sequence[ByColumn] | None, notes: Sequence[str],
) -> None:  # fmt: skip
    """Print a comparison.

    Args:
        args: What the user gave.
        runs: One run, or two.
        pairs: Their common documents; None for one run.
        rows: The metrics of two runs.
        by: Scores by a column, if asked for.
        notes: What to know.
    """
    if args.format == "json":
        print_json(_as_json(args, runs, pairs, rows, by, notes))
        return
    from lm_eval_healthcare.results.run_comparison import protocol

    for letter, text in protocol(runs).items():
        print(f"{_bullet(args)}{letter}: {text}")
    if pairs is not None:
        print(
            f"{_bullet(args)}paired by {pairs.by}: {len(pairs.a)} documents in both, {pairs.only_a} only in A, "
            f"{pairs.only_b} only in B"
        )
    for note in notes:
        print(f"{_bullet(args)}note: {note}")
    if rows is not None:
        print()
        _lay_out(args, [_shown(row) for row in rows])
        print()
        for line in _legend(args, rows):
            print(f"{_bullet(args)}{line}")
    for one in by or ():
        _show_by(args, one)
    if by and _is_time(args.by):
        from lm_eval_healthcare.analysis.score_by_group import CONTAMINATION_NOTE

        print(f"\n{CONTAMINATION_NOTE}")


def _bullet(args: argparse.Namespace) -> str:
    return "- " if args.format == "markdown" else ""


def _is_time(column: str) -> bool:
    return "year" in column.lower() or "date" in column.lower()


def _lay_out(args: argparse.Namespace, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows without the columns that are empty in all of them."""
    columns = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    if args.format == "markdown":
        print("| " + " | ".join(columns) + " |")
        print("|" + " --- |" * len(columns))
        for row in rows:
            cells = ["-" if row[name] in (None, "") else str(row[name]).replace("|", "\\|") for name in columns]
            print("| " + " | ".join(cells) + " |")
    else:
        print(table(rows, columns))


def _shown(row: MetricRow) -> dict[str, Any]:
    found, counts = row.found, row.found.mcnemar
    return {
        "metric": row.name,
        "n": found.n,
        "unscored A": found.unscored_a or None,
        "unscored B": found.unscored_b or None,
        "A": _number(found.mean_a),
        "B": _number(found.mean_b),
        "A - B": _number(found.difference),
        "95% interval": _interval(found.interval),
        "effect": _number(found.effect),
        "only A": None if counts is None else counts.only_a,
        "only B": None if counts is None else counts.only_b,
        "clusters": found.clusters,
        "test": _TESTS[found.test],
        "p": _p(found.p),
        "mid-p": None if counts is None or found.clusters else _p(counts.mid_p),
        "p (Holm)": _p(row.p_holm),
        "better": row.better,
        "detectable": _number(found.detectable),
        "undefined": None if found.reason is None else found.reason.replace("_", " "),
        "doubtful": ", ".join(flag.replace("_", " ") for flag in found.flags),
    }


def _legend(args: argparse.Namespace, rows: Sequence[MetricRow]) -> list[str]:
    over = f"documents with the same {args.cluster}" if args.cluster else "documents"
    lines = [
        f"A - B: mean difference; its interval from {args.resamples} draws of {over} ({args.interval}, seed "
        f"{args.seed}). effect: that over the standard deviation of the differences",
        "detectable: the true difference that a test at 5% finds with 80% power, for this n and this variance; a "
        "smaller one may be there and not be seen",
    ]
    if any(row.found.mcnemar for row in rows):
        lines.append("only A, only B: documents that only this run has right, which is what McNemar's test compares")
    tested = sum(not math.isnan(row.found.p) for row in rows)
    if tested > 1:
        lines.append(f"p (Holm): adjusted for the {tested} p-values of this table; `better` goes by it")
    return lines


def _show_by(args: argparse.Namespace, one: ByColumn) -> None:
    print(f"\n{'### ' if args.format == 'markdown' else ''}{one.name} by {args.by}\n")
    rows = []
    for groups in one.groups:
        row: dict[str, Any] = {args.by: groups[0].label, "n": groups[0].n}
        for letter, group in zip("AB", groups, strict=False):
            row |= {letter: _number(group.mean), f"{letter}: 95% interval": _interval(group.interval)}
        if len(groups) == 2:
            row["A - B"] = _number(groups[0].mean - groups[1].mean)
        rows.append(row)
    _lay_out(args, rows)
    print()
    for letter, trend in zip("AB", one.trends, strict=False):
        print(f"{_bullet(args)}{letter}: {_trend(args, trend)}")


def _trend(args: argparse.Namespace, trend: Trend) -> str:
    """Say in words how scores change along the column."""
    gap = ""
    if not math.isnan(trend.before_last):
        gap = f"; all before the last {args.by} less the last: {_number(trend.before_last)} {_interval(trend.interval)}"
    if trend.reason is not None:
        return f"no trend ({trend.reason.replace('_', ' ')}; n = {trend.n}){gap}"
    p = _p(trend.p) or "undefined"
    letter = "z" if trend.test == "cochran_armitage" else "t"
    return (
        f"{_number(trend.slope)} per unit of {args.by}, {_TESTS[trend.test]} {letter} = {_number(trend.statistic)}, "
        f"p {p if p[0] == '<' else f'= {p}'}, n = {trend.n}{gap}"
    )


def _number(value: float) -> str | None:
    return None if math.isnan(value) else f"{value:.4g}"


def _p(value: float) -> str | None:
    if math.isnan(value):
        return None
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _interval(ends: tuple[float, float]) -> str | None:
    return None if math.isnan(ends[0]) else f"[{ends[0]:.4g}, {ends[1]:.4g}]"


def _as_json(
    args: argparse.Namespace, runs: Sequence[SampleScores], pairs: Pairs | None, rows: Sequence[MetricRow] | None,
    by: Sequence[ByColumn] | None, notes: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    content: dict[str, Any] = {
        name: {
            "model": run.of.run.model,
            "task": run.of.task,
            "documents": len(run.documents),
            "file": str(run.of.file),
        }
        for name, run in zip("ab", runs, strict=False)
    }
    if pairs is not None:
        content |= {
            "paired_by": pairs.by, "n_common": len(pairs.a), "n_only_a": pairs.only_a, "n_only_b": pairs.only_b,
            "cluster": args.cluster, "interval": args.interval, "resamples": args.resamples, "seed": args.seed,
            "metrics": [_metric_json(row) for row in rows or ()],
        }  # fmt: skip
    if by is not None:
        content["by"] = {"column": args.by, "metrics": [_by_json(one) for one in by]}
        if _is_time(args.by):
            from lm_eval_healthcare.analysis.score_by_group import CONTAMINATION_NOTE

            content["by"]["note"] = CONTAMINATION_NOTE
    return {**content, "notes": list(notes)}


def _metric_json(row: MetricRow) -> dict[str, Any]:
    found, counts = row.found, row.found.mcnemar
    return {
        "metric": row.metric, "filter": row.filters[0],
        **({} if row.filters[0] == row.filters[1] else {"filter_b": row.filters[1]}),
        "higher_is_better": row.higher_is_better,
        "n": found.n, "unscored_a": found.unscored_a, "unscored_b": found.unscored_b,
        "mean_a": _finite(found.mean_a), "low_a": _finite(found.interval_a[0]), "high_a": _finite(found.interval_a[1]),
        "mean_b": _finite(found.mean_b), "low_b": _finite(found.interval_b[0]), "high_b": _finite(found.interval_b[1]),
        "difference": _finite(found.difference), "low": _finite(found.interval[0]), "high": _finite(found.interval[1]),
        "stderr": _finite(found.stderr), "effect": _finite(found.effect), "detectable": _finite(found.detectable),
        "test": found.test, "p": _finite(found.p), "p_holm": _finite(row.p_holm), "better": row.better,
        "only_a": None if counts is None else counts.only_a, "only_b": None if counts is None else counts.only_b,
        "p_mcnemar": None if counts is None else counts.p, "p_mcnemar_mid": None if counts is None else counts.mid_p,
        "p_t": _finite(found.p_t), "p_wilcoxon": _finite(found.p_wilcoxon),
        "clusters": found.clusters, "design_effect": _finite(found.design_effect),
        "reason": found.reason, "flags": list(found.flags),
    }  # fmt: skip


def _by_json(one: ByColumn) -> dict[str, Any]:
    groups = []
    for found in one.groups:
        groups.append({"value": found[0].label, "n": found[0].n})
        for name, group in zip("ab", found, strict=False):
            low, high = map(_finite, group.interval)
            groups[-1][name] = {"mean": _finite(group.mean), "low": low, "high": high}
    trends = [
        {"test": t.test, "n": t.n, "slope": _finite(t.slope), "statistic": _finite(t.statistic), "p": _finite(t.p),
         "before_last": _finite(t.before_last), "low": _finite(t.interval[0]), "high": _finite(t.interval[1]),
         "reason": t.reason}
        for t in one.trends
    ]  # fmt: skip
    return {"metric": one.name, "groups": groups, "trends": dict(zip("ab", trends, strict=False))}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
