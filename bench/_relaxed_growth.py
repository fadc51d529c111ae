"""How the cost of Relaxed Perplexity grows with n, s, stride and the number of targets, as a table and as a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _relaxed_jobs import (
    STANDARD,
    TOLERANCE,
    Setting,
    Subject,
    floor_tokens,
    job_of,
    naive_tokens,
    timed,
)


class Cost(NamedTuple):
    """Forward tokens and seconds of CPU time of one setting, of one pass a branch and of the engine."""

    value: int
    naive_tokens: int
    tokens: int
    least_tokens: int
    naive_seconds: float
    seconds: float
    difference: float


class Axis(NamedTuple):
    """What grows: its name, its values (the standard one among them), those of a quick run, and the setting for one."""

    name: str
    values: Sequence[int]
    quick: Sequence[int]
    setting: Callable[[int], Setting]


AXES = (
    Axis("n, tokens of a completion", (32, 64, 128, 256), (32, 128, 256), lambda value: _changed(length=value)),
    Axis("s, completions of a question", (5, 10, 20, 40), (5, 10, 40), lambda value: _changed(samples=value)),
    Axis("stride, tokens between positions", (4, 8, 16, 32), (8, 16, 32), lambda value: _changed(stride=value)),
    Axis("targets of 60 tokens", (1, 2, 4), (1, 2), lambda value: Setting(100, (60,) * value)),
)
NAIVE, OURS, LEAST = "#b35806", "#2166ac", "#111111"


def _changed(**changes: int) -> Setting:
    return Setting(100, (60,), replace(STANDARD, **changes))


def show(subject: Subject, quick: bool, figure: Path | None) -> bool:
    """Print how the cost grows, draw it if a file is named, and return whether all numbers are equal."""
    print(f"\nGrowth, {subject.name}, q=100, t=60, the other numbers standard; one question, CPU time", flush=True)
    print(
        f"{'':36} {'forward tokens':^33}   {'seconds':^24}\n{'':36} {'a branch':>9} {'here':>7} {'ratio':>6} ", end=""
    )
    print(f"{'here/least':>10}  {'a branch':>9} {'here':>7} {'ratio':>6}   largest difference")
    known: dict[Setting, Cost] = {}
    measured = []
    for axis in AXES:
        costs = [_cost(subject, value, axis.setting(value), known) for value in (axis.quick if quick else axis.values)]
        for cost in costs:
            print(
                f"{axis.name + ' = ' + str(cost.value):36} {cost.naive_tokens:9,} {cost.tokens:7,} "
                f"{cost.naive_tokens / cost.tokens:5.2f}x {cost.tokens / cost.least_tokens:9.2f}x  "
                f"{cost.naive_seconds:9.2f} {cost.seconds:7.2f} {cost.naive_seconds / cost.seconds:5.2f}x   "
                f"{cost.difference:.1e}",
                flush=True,
            )
        measured.append((axis.name, costs))
    if figure:
        draw(figure, measured, subject.name)
        print(f"figure: {figure}")
    return all(cost.difference <= TOLERANCE for _, costs in measured for cost in costs)


def _cost(subject: Subject, value: int, setting: Setting, known: dict[Setting, Cost]) -> Cost:
    if setting not in known:
        known[setting] = _measured(subject, value, setting)
    return known[setting]._replace(value=value)


def _measured(subject: Subject, value: int, setting: Setting) -> Cost:
    from lm_eval_healthcare.relaxed_perplexity.engines.forward import Forward
    from lm_eval_healthcare.relaxed_perplexity.engines.plain import PlainScorer

    engine, plain = subject.engine(), PlainScorer(Forward(subject.model))
    job = job_of(engine, subject.question(setting), setting.settings)
    engine.score([job])  # it compares a few branches with plain passes before its first scores
    before = engine.tokens_forwarded
    ours, theirs = timed(lambda: engine.score([job])[0]), timed(lambda: plain.score(job))
    return Cost(
        value,
        naive_tokens(job),
        engine.tokens_forwarded - before,
        floor_tokens(job),
        theirs.cpu,
        ours.cpu,
        float(np.abs(ours.result - theirs.result).max()),
    )


def draw(path: Path, measured: Sequence[tuple[str, Sequence[Cost]]], name: str) -> None:
    """Draw a panel for each axis: tokens on the left, and seconds on a scale on which one pass a branch agrees."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    costs = [cost for _, found in measured for cost in found]
    rate = sum(cost.naive_seconds for cost in costs) / sum(cost.naive_tokens for cost in costs) * 1000
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.2), layout="constrained")
    for panel, (title, found) in zip(axes.flat, measured, strict=True):
        _panel(panel, title, found, rate)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.supxlabel(
        f"{name}; q=100, t=60, n=128, s=10, l=5, stride 8 where not said otherwise; float32, one thread; scoring only\n"
        "numbers: CPU time of one pass a branch as a multiple of the engine's",
        fontsize=8,
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _panel(panel: Any, title: str, costs: Sequence[Cost], rate: float) -> None:
    places = [cost.value for cost in costs]
    lines = (
        ("one pass a branch: tokens", NAIVE, "-", "o", [cost.naive_tokens / 1000 for cost in costs]),
        ("one pass a branch: time", NAIVE, "--", "s", [cost.naive_seconds / rate for cost in costs]),
        ("engine: tokens", OURS, "-", "o", [cost.tokens / 1000 for cost in costs]),
        ("engine: time", OURS, "--", "s", [cost.seconds / rate for cost in costs]),
        ("least tokens possible", LEAST, ":", "", [cost.least_tokens / 1000 for cost in costs]),
    )
    for label, color, style, marker, values in lines:
        face = "white" if style == "--" else color
        panel.plot(places, values, style, color=color, marker=marker, markersize=5, markerfacecolor=face, label=label)
    for cost in costs:
        top = max(cost.naive_tokens / 1000, cost.naive_seconds / rate)
        ratio = f"{cost.naive_seconds / cost.seconds:.1f}x"
        panel.annotate(
            ratio, (cost.value, top), (4, 7), textcoords="offset points", ha="center", fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
    panel.set_xticks(places)
    panel.set_xlabel(title)
    panel.set_ylabel("forward tokens, thousands")
    panel.set_ylim(0, 1.15 * panel.get_ylim()[1])
    panel.spines[["top"]].set_visible(False)
    seconds = panel.secondary_yaxis("right", functions=(lambda tokens: tokens * rate, lambda time: time / rate))
    seconds.set_ylabel("CPU time, s")
