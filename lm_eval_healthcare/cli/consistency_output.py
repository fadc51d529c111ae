"""What `consistency` prints for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval_healthcare.cli.tables import table
from lm_eval_healthcare.results.names import printable

_MOST_PAIRS = 20
_WORDS = {
    "signature_unknown": "the log does not say how it was computed",
    "signatures_differ": "the runs did not compute it in the same way, so they cannot be compared",
    "metric_failed": "it failed; see the messages above",
    "scale_below_zero": "its scale goes below zero, so it has no coefficient of variation",
    "no_range": "all scores are equal, so its variance cannot be scaled",
}
_REASONS = {
    "negative_value": "with a negative score",
    "mean_near_zero": "with a mean of nearly 0",
    "scale_below_zero": "on a scale that goes below zero",
    "single_score": "with a single score",
    "no_score": "without a score",
    "not_sampled": "not sampled",
}


def show(study: Mapping[str, Any], files: Sequence[Path]) -> None:
    """Print tables, what they mean in words, and where files are.

    Args:
        study: The content of `consistency.json`.
        files: What was written.
    """
    rows = [_row(name, one) for name, one in study["metrics"].items()]
    print(table(rows, list(rows[0])))
    print()
    if any(one["mean_variance"] is not None for one in study["metrics"].values()):
        for name, one in study["metrics"].items():
            for line in _about_metric(name, one, study["runs"]):
                print(line)
        _show_noise(study["runs"])
        _show_pairs(study["pairs"])
    _show_flags(study["runs"])
    for file in files:
        print(f"written: {printable(file)}")


def _row(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "metric": printable(name),
        "mean": _short(one["mean"]),
        "mean variance": _short(one["mean_variance"]),
        "sd": _short(_root(one["mean_variance"])),
        "mean CV": _short(one["mean_cv"]),
        "n": one["n_prompts"],
        "undefined": one["n_undefined"],
        "repeats": one["repeats"],
    }


def _about_metric(name: str, one: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    sd = _root(one["mean_variance"])
    if sd is None:
        yield f"{printable(name)}: no question has a variance"
    else:
        line = f"asking again moves {printable(name)} of a question by \u00b1{_short(sd)} (sd)"
        own = [run["metrics"][name]["noise"] for run in runs if name in run["metrics"]]
        if len(own) == 1 and own[0]["se"] is not None:
            line += (
                f"; with {one['repeats']} answers a question the standard error of the mean is "
                f"{_short(own[0]['se'])}{_share(own[0])}"
            )
        yield line
    if one["undefined"]:
        reasons = ", ".join(f"{n} {_REASONS.get(why, why)}" for why, n in one["undefined"].items())
        yield f"  CV undefined for {one['n_undefined']}: {reasons}"
    for flag in one["flags"]:
        if flag in _WORDS:
            yield f"  {printable(name)}: {_WORDS[flag]}"


def _show_noise(runs: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for run in runs:
        for name, one in run["metrics"].items():
            noise = one["noise"]
            needs = [_need(need) for need in one["repeats_needed"]]
            rows.append(
                {
                    "model": printable(run["model"]), "task": printable(run["task"]), "metric": printable(name),
                    "mean": _short(one["mean"]), "SE": _short(noise["se"]),
                    "from answers": _short(noise["se_prediction"]), "from questions": _short(noise["se_data"]),
                    "answers needed for a smaller SE": "; ".join(needs) or "-",
                }
            )  # fmt: skip
    if not rows:
        return
    needless = {column for column in ("model", "task") if len({row[column] for row in rows}) == 1}
    print()
    print(table(rows, [column for column in rows[0] if column not in needless]))


def _need(need: Mapping[str, Any]) -> str:
    wanted = _short(need["se"])
    if need["repeats"] is not None:
        return f"{wanted}: {need['repeats']}"
    many = "" if need["prompts_needed"] is None else f", {need['prompts_needed']:,} questions are"
    return f"{wanted}: no number of answers is enough{many}"


def _show_pairs(pairs: Sequence[Mapping[str, Any]]) -> None:
    if not pairs:
        return
    rows = [
        {
            "A": printable(pair["models"][0]), "B": printable(pair["models"][1]), "task": printable(pair["task"]),
            "metric": printable(pair["metric"]), "A - B": _short(pair["difference"]), "SE": _short(pair["se"]),
            "from answers": _short(pair["se_prediction"]), "from questions": _short(pair["se_data"]), "n": pair["n"],
        }
        for pair in pairs[:_MOST_PAIRS]
    ]  # fmt: skip
    print()
    print(table(rows, list(rows[0])))
    if len(pairs) > _MOST_PAIRS:
        print(f"and {len(pairs) - _MOST_PAIRS:,} more pairs of models and metrics; --format json shows all")


def _show_flags(runs: Sequence[Mapping[str, Any]]) -> None:
    if any(run["flags"] or run["errors"] or run["reasons"] for run in runs):
        print()
    for run in runs:
        for flag in run["flags"]:
            print(f"{flag['flag']}: {printable(run['model'])}, {printable(run['task'])}: {flag['text']}")
        if run["reasons"]:
            counts = ", ".join(f"{reason} {n}" for reason, n in run["reasons"].items())
            print(f"answers: {printable(run['model'])}, {printable(run['task'])}: {printable(counts)}")
        for name, text in run["errors"].items():
            print(f"failed: {printable(run['model'])}, {printable(run['task'])}: {name}: {text}")


def _share(noise: Mapping[str, Any]) -> str:
    whole = noise["se"] ** 2
    if whole <= 0:
        return ""
    share = min(1.0, noise["se_prediction"] ** 2 / whole)
    return f" ({share:.0%} of its square from the answers drawn, the rest from the choice of questions)"


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
