"""What `correlate` writes: coefficients, scores, matrices, ranks, and their pictures."""

from __future__ import annotations

import csv
import json
import math
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lm_eval_healthcare.analysis.scores import Correlation, Scores
    from lm_eval_healthcare.analysis.selections import Selection


def write_json(path: Path, found: Sequence[Correlation]) -> None:
    """Write the coefficients, one object each; NaN as null."""
    from lm_eval_healthcare.whole_file import whole_file

    def number(value: float) -> float | None:
        return None if math.isnan(value) else round(value, 12)

    content = [
        {
            "x": one.x, "y": one.y, "method": one.method, "r": number(one.r), "p": number(one.p),
            "low": number(one.low), "high": number(one.high), "n": one.n, "reason": one.reason,
            "flags": list(one.flags), "p_adjusted": number(one.adjusted),
            "r_without_one": [number(value) for value in one.sensitivity], "r_stderr_of_scores": number(one.propagated),
        }
        for one in found
    ]  # fmt: skip
    with whole_file(path) as part:
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_scores(path: Path, scores: Scores) -> None:
    """Write the matrix of scores that everything is computed from."""
    rows = [["model", *(column.name for column in scores.columns)]]
    for model, values in zip(scores.models, scores.values, strict=True):
        rows.append([model, *("" if math.isnan(value) else repr(float(value)) for value in values)])
    _write_csv(path, rows)


def _write_csv(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    from lm_eval_healthcare.whole_file import whole_file

    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)


def _with_itself(scores: Scores, args: argparse.Namespace) -> Iterable[Correlation]:
    """Yield what stands on the diagonal: 1, with the number of models, where the column varies."""
    import numpy as np

    from lm_eval_healthcare.analysis.scores import Correlation

    for place, column in enumerate(scores.columns):
        values = scores.values[:, place]
        values = values[np.isfinite(values)]
        few, constant = values.size < args.min_models, values.size and np.ptp(values) <= 1e-12 * np.abs(values).max()
        reason = "too_few_models" if few else "constant" if constant else None
        r = math.nan if reason else 1.0
        yield Correlation(column.name, column.name, args.method, r, math.nan, math.nan, math.nan, values.size, reason)


def write_matrix(
    folder: Path, selection: Selection, scores: Scores, found: Sequence[Correlation], args: argparse.Namespace
) -> None:
    """Write and draw one matrix: coefficients, and numbers of models."""
    by_pair = {(one.x, one.y): one for one in found}
    by_pair |= {(one.x, one.y): one for one in _with_itself(scores, args) if one.x in selection.columns}

    def of(x: str, y: str) -> Correlation | None:
        return by_pair.get((x, y)) or by_pair.get((y, x))

    for kind in ("r", "n"):
        rows: list[list[Any]] = [["", *selection.columns]]
        for x in selection.rows:
            cells = [of(x, y) for y in selection.columns]
            rows.append([x, *(_shown(one, kind) for one in cells)])
        _write_csv(folder / f"{selection.name}_{args.method}_{kind}.csv", rows)
    if args.no_figures:
        return
    from lm_eval_healthcare.errors import UserError
    from lm_eval_healthcare.report.heatmap import ENDINGS, heatmap, save

    try:
        figure = heatmap(selection.rows, selection.columns, by_pair, f"{selection.title} ({args.method})")
    except UserError as error:
        print(f"no pictures: {error}", file=sys.stderr)
        args.no_figures = True
        return
    for ending in ENDINGS:
        save(figure, folder / f"{selection.name}_{args.method}{ending}")


def _shown(one: Correlation | None, kind: str) -> Any:
    if one is None:
        return ""
    value = getattr(one, kind)
    return "" if isinstance(value, float) and math.isnan(value) else value


def write_ranks(folder: Path, scores: Scores, args: argparse.Namespace) -> None:
    """Write and draw ranks of models."""
    import numpy as np

    from lm_eval_healthcare.analysis.ranks import rank_models

    ranks = rank_models(scores, rng=np.random.default_rng(args.seed))
    rows: list[list[Any]] = [["column", "model", "rank", "low", "high", "of", "flags"]]
    for place, name in enumerate(ranks.names):
        for number, model in enumerate(ranks.models):
            cells = (part[number, place] for part in (ranks.ranks, ranks.low, ranks.high))
            shown = ["" if math.isnan(cell) else float(cell) for cell in cells]
            rows.append([name, model, *shown, ranks.of[place], " ".join(ranks.flags[place])])
    _write_csv(folder / "ranks.csv", rows)
    if not args.no_figures:
        from lm_eval_healthcare.report.heatmap import ENDINGS, save
        from lm_eval_healthcare.report.rank_figure import rank_figure

        figure = rank_figure(ranks, "Ranks of models by metric")
        for ending in ENDINGS:
            save(figure, folder / f"figure_18_ranks{ending}")
