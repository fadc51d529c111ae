"""`lm-eval-healthcare report`: everything that result files say, as one HTML file."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from lm_eval_healthcare.analysis.scores import Correlation, Scores
    from lm_eval_healthcare.report.html_data import RankInterval
    from lm_eval_healthcare.results.cell import Table

METHODS = ("pearson", "spearman", "kendall")
_MOST_COLUMNS = 40
_EPILOG = """\
PATH is a folder that holds results_*.json and samples_*.jsonl of the harness at any depth, or such a file. The page is
one file that loads nothing; it can be opened from a disk, sent and printed. Texts of credentialed data are never in it.
A consistency.json or resilience.json below PATH is shown with its pictures.

examples:
  lm-eval-healthcare report results -o report.html
  lm-eval-healthcare report results judged -o report.html --metric prometheus --title "Ward models, spring"
  lm-eval-healthcare report results -o report.html --no-samples --allow-partial
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, which values count, and what is embedded."""
    from lm_eval_healthcare.cli.results_options import add_table_options
    from lm_eval_healthcare.report.html_samples import MAX_SAMPLES, MAX_TEXT

    parser.allow_abbrev = False
    add_table_options(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the HTML file to write")
    parser.add_argument("--title", default="Results on healthcare benchmarks", help="the heading")
    parser.add_argument("--metric", metavar="NAME", help="the metric that the overview begins with")
    parser.add_argument(
        "--max-samples", type=_whole(0), default=MAX_SAMPLES, metavar="N",
        help="most answers embedded, shared evenly among tasks, the same documents for every model "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--max-text", type=_whole(1), default=MAX_TEXT, metavar="N",
        help="most characters of one embedded text (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--no-samples", action="store_true", help="embed no answers")
    parser.add_argument(
        "--method", nargs="+", choices=METHODS, default=["spearman"], help="correlations (default: spearman)"
    )
    parser.add_argument(
        "--bootstrap", type=_whole(0), default=1000, metavar="N", help="draws of a correlation (default: %(default)s)"
    )
    parser.add_argument("--no-correlations", action="store_true", help="compute no correlations and no ranks")
    parser.add_argument("--seed", type=_whole(0), default=0, metavar="N", help="of resampling (default: 0)")
    parser.add_argument(
        "--include_path", action="append", default=[], metavar="DIR", help="your own task folder; repeatable"
    )
    parser.add_argument("--date", metavar="TEXT", help="the date on the page (default: SOURCE_DATE_EPOCH, or now)")
    parser.epilog = _EPILOG


def execute(args: argparse.Namespace) -> int:
    """Read, compute, write.

    Returns:
        1 if no value was chosen (the page then says why) and there is no study either, else 0.

    Raises:
        lm_eval_healthcare.errors.UserError: If a path does not exist, or the file cannot be written.
    """
    import lm_eval_healthcare
    from lm_eval_healthcare.cli.results_options import rules_of, table_of
    from lm_eval_healthcare.report.html_data import Made, Report, read_breakdowns
    from lm_eval_healthcare.report.html_report import html_report
    from lm_eval_healthcare.report.study_files import find_studies

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    table = table_of(args)
    private = _private(args.include_path)
    faults: list[str] = []
    command = shlex.join(["lm-eval-healthcare", *sys.argv[1:]])
    made = Made(
        date=args.date or _now(), command=command, version=lm_eval_healthcare.__version__, title=args.title,
        rules=rules_of(args), paths=tuple(str(path) for path in args.paths),
    )  # fmt: skip
    studies = find_studies(args.paths, faults)
    table.skipped = [one for one in table.skipped if one.file not in {study.path for study in studies}]
    report = Report(
        table, made, breakdowns=read_breakdowns(table, private, faults), metric=args.metric, studies=studies
    )  # fmt: skip
    if args.metric and args.metric not in {name for c in table.cells for name in (c.metric, f"{c.metric},{c.filter}")}:
        faults.append(f"--metric {args.metric}: no chosen value has this metric")
    if not args.no_samples:
        report.samples = _samples(args, table, private)
    if not args.no_correlations:
        report.correlations, report.ranks, notes = _statistics(table, args)
        faults += notes
    report.warnings = faults
    _write(args.output, html_report(report))
    _tell(args.output, report.samples, table, len(studies))
    return 0 if table.cells or studies else 1


def _private(include_path: Sequence[str]) -> Callable[[str, Mapping[str, Any]], bool]:
    """Return what says of a task whether its texts may not be shown; in doubt they may not."""
    from lm_eval_healthcare.cli.data_arguments import roots
    from lm_eval_healthcare.results.results_file import task_config, task_metadata
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks

    pack, *own = roots(list(include_path))
    known = KnownTasks([*own, pack])

    def private(task: str, content: Mapping[str, Any]) -> bool:
        facts = known.facts(task, task_metadata(content, task))
        if facts is not None and facts.credentialed:
            return True
        # The harness's own tasks and a user's may name the same data without saying what they are.
        config = task_config(content, task)
        named = [task, *(str(config.get(key) or "") for key in ("dataset_path", "dataset_name", "tag"))]
        return any("mimic" in name.lower() for name in named)

    return private


def _samples(
    args: argparse.Namespace, table: Table, private: Callable[[str, Mapping[str, Any]], bool]
) -> dict[str, Any]:
    from lm_eval_healthcare.report.html_samples import collect
    from lm_eval_healthcare.results.discovery import find
    from lm_eval_healthcare.results.results_file import ResultsError

    try:
        runs = find(args.paths).runs
    except ResultsError:  # a results file by another name, which the table can read
        runs = find([path for path in args.paths if path.is_dir()]).runs
    return collect(runs, table, private, args.max_samples, args.max_text)


def _statistics(
    table: Table, args: argparse.Namespace
) -> tuple[dict[str, list[Correlation]], list[RankInterval], list[str]]:
    """Return correlations by title, ranks, and what is to be said of them."""
    import numpy as np

    from lm_eval_healthcare.analysis.correlation import correlate
    from lm_eval_healthcare.analysis.directions import PERPLEXITIES
    from lm_eval_healthcare.report.html_data import without_parts
    from lm_eval_healthcare.results.score_matrix import score_matrix

    scores = score_matrix(without_parts(table.cells))
    ranks = _ranks(scores, args.seed)
    if len(scores.models) < 3:
        return {}, ranks, []
    found: dict[str, list[Correlation]] = {}
    for title, part in _parts(scores).items():
        found[title] = []
        for method in args.method:
            rng = np.random.default_rng(args.seed)
            found[title] += correlate(
                part, method, rng=rng, log_metrics=PERPLEXITIES, n_bootstrap=args.bootstrap, align_directions=False
            )
    return found, ranks, list(scores.notes)


def _parts(scores: Scores) -> dict[str, Scores]:
    """Return what is shown in one heatmap each: everything, or what has a metric or a task in common if it is a lot."""
    if len(scores.columns) <= _MOST_COLUMNS:
        return {"All columns": scores}
    parts: dict[str, list[str]] = {}
    for column in scores.columns:
        parts.setdefault(f"Benchmarks within {column.metric}", []).append(column.name)
    for column in scores.columns:
        parts.setdefault(f"Metrics within {column.task}", []).append(column.name)
    return {title: scores.take(names) for title, names in parts.items() if len(names) > 1}


def _ranks(scores: Scores, seed: int) -> list[RankInterval]:
    import numpy as np

    from lm_eval_healthcare.analysis.ranks import rank_models
    from lm_eval_healthcare.report.html_data import RankInterval

    found = rank_models(scores, rng=np.random.default_rng(seed))
    return [
        RankInterval(
            (model, column.task, column.metric, column.filter),
            *(float(part[row, place]) for part in (found.ranks, found.low, found.high)),
        )
        for place, column in enumerate(scores.columns)
        for row, model in enumerate(found.models)
        if found.of[place] > 1 and np.isfinite(found.ranks[row, place])
    ]


def _now() -> str:
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(given), timezone.utc) if given.isdecimal() else datetime.now(timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def _write(path: Path, page: str) -> None:
    from lm_eval_healthcare.errors import UserError
    from lm_eval_healthcare.whole_file import whole_file

    try:
        with whole_file(path) as part:
            part.write_bytes(page.encode("utf-8"))
    except OSError as error:
        raise UserError(f"-o {path}: cannot be written ({error}); give a file in a folder that is yours") from error


def _tell(path: Path, samples: Mapping[str, Any] | None, table: Table, studies: int) -> None:
    models = len({cell.model for cell in table.cells})
    print(
        f"written: {path} ({path.stat().st_size / 1e6:.1f} MB; {models} models, {len(table.cells)} values, "
        f"{len(table.set_aside)} set aside, {len(table.skipped)} files skipped"
        + (f", {studies} {'study' if studies == 1 else 'studies'}" if studies else "")
        + (f", {len(samples['docs'])} documents with answers)" if samples is not None else ")")
    )
    if not table.cells:
        print("no value was chosen: the page says what was set aside and why", file=sys.stderr)


def _whole(least: int) -> Callable[[str], int]:
    import argparse

    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text}: expected a whole number, {least} or more")
        return int(text)

    return whole
