"""`lm-eval-healthcare relaxed`: every reading of Relaxed Perplexity from stored matrices, without a model."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse

    from lm_eval_healthcare.relaxed_perplexity import Settings
    from lm_eval_healthcare.relaxed_perplexity.matrix_file import Document
    from lm_eval_healthcare.report.relaxed_figure import Panel
    from lm_eval_healthcare.results.relaxed_matrices import Source
    from lm_eval_healthcare.scoring.relaxed import DocumentValues

COMBINE = {"sum": "", "averaged": "_averaged", "weighted": "_weighted", "sampled": "_sampled"}
FORMATS = ("table", "csv", "json", "markdown")
_EPILOG = """\
PATH is a file of matrices (relaxed_<task>_<time>.parquet), a sample log of such a task, a folder of saved answers, or a
folder that holds any of these at any depth. A measurement that lies there in several forms is shown once.

readings: `default`, `all`, or relaxed_perplexity, log_relaxed_perplexity, relaxed_perplexity_corrected,
log_relaxed_perplexity_corrected, relaxed_cross_entropy_sum, relaxed_cross_entropy_mean, relaxed_cross_entropy_any,
relaxed_nats_per_byte; any of them may end in _averaged, _weighted or _sampled, and log_relaxed_perplexity and
relaxed_nats_per_byte, after that, in _median.

examples:
  lm-eval-healthcare relaxed results
  lm-eval-healthcare relaxed results/model/relaxed_olaph_relaxed_perplexity_2026-11-30T10-15-00.000000.parquet \\
      --combine weighted --figure olaph.png
  lm-eval-healthcare relaxed --reduce results --stride 16 --length 64 --per document --format csv --output values.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, what is read from the matrices, and how it is shown."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="what to reduce, see below")
    parser.add_argument(
        "--reduce", nargs="*", action="extend", default=[], type=Path, metavar="PATH", help="the same as PATH"
    )
    parser.add_argument(
        "--reading", nargs="+", action="extend", default=[], metavar="NAME", help="what to compute (default: `default`)"
    )
    parser.add_argument(
        "--combine", choices=tuple(COMBINE),
        help="how the prefixes of a position become one probability: added up as published (default: sum), averaged, "
        "weighted by their probability, or by how many completions begin with them",
    )  # fmt: skip
    for name, text in (
        ("stride", "as if only every N-th position had been scored; a multiple of the measured stride"),
        ("length", "as if completions had N tokens; at most the measured ones"),
        ("keep", "as if the N most likely prefixes of a position had been scored; at most those that were"),
    ):
        parser.add_argument(f"--{name}", type=_whole(least=0 if name == "length" else 1), metavar="N", help=text)
    parser.add_argument(
        "--per", choices=("document", "task"), default="task", help="one line for what (default: %(default)s)"
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print (default: %(default)s)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there instead of printing")
    parser.add_argument(
        "--figure", type=Path, metavar="FILE",
        help="also draw where in the answer targets become likely (.png or .svg); prefixes of a position are averaged "
        "there if --combine does not say otherwise, since their number differs from position to position",
    )  # fmt: skip
    parser.epilog = _EPILOG


@dataclass
class Reduced:
    """One source after its reduction.

    Attributes:
        source: Where the matrices are from.
        settings: How they were measured, or would have been if they are thinned.
        values: By list of targets each document's number and values.
        panel: Its part of the figure, if one is wanted.
    """

    source: Source
    settings: Settings
    values: dict[str, list[tuple[int, DocumentValues]]]
    panel: Panel | None = None


def execute(args: argparse.Namespace) -> int:
    """Reduce the matrices and print.

    Returns:
        1 if nothing was reduced or a file with matrices could not be read to its end, else 0.
    """
    from lm_eval_healthcare.cli.relaxed_output import as_text
    from lm_eval_healthcare.report import relaxed_figure
    from lm_eval_healthcare.results.relaxed_matrices import find

    readings = chosen_readings(args.reading, COMBINE[args.combine or "sum"])
    paths = [*args.paths, *args.reduce]
    if not paths:
        raise UserError("relaxed: no PATH given; give a .parquet file of matrices, or a folder of results")
    if args.figure:
        relaxed_figure.check(args.figure)
    found = find(paths)
    for fault in found.faults:
        print(fault, file=sys.stderr)
    if found.repeated:
        print(f"shown once: numbers that lie there more than once ({found.repeated} more times)", file=sys.stderr)
    thinned = [(source, _thinned_settings(source, args)) for source in found.sources]  # before anything is computed
    done, broken = [], 0
    for source, settings in thinned:
        try:
            done.append(_reduced(source, settings, readings, args))
        except UserError as error:  # the others are still reduced
            print(error, file=sys.stderr)
            broken += 1
    if not any(one.values for one in done):
        print(
            "lm-eval-healthcare: no matrices of Relaxed Perplexity there; runs of tasks such as "
            "careqa_open_relaxed_perplexity with --output_path leave them",
            file=sys.stderr,
        )
        return 1
    text = as_text(done, readings, args.per, args.format)
    _put_out(text, args.output)
    if args.figure:
        panels = [one.panel for one in done if one.panel is not None]
        print(f"figure: {relaxed_figure.draw(args.figure, panels, _source_line(done, args))}", file=sys.stderr)
    return int(broken > 0)


def chosen_readings(given: list[str], combination: str) -> list[str]:
    """Return the readings that are wanted, by their whole names.

    Args:
        given: As the user gave them, also joined by commas or `+`; none means the default ones.
        combination: The end of the names of readings that do not name a combination.

    Raises:
        UserError: If there is no such reading.
    """
    from lm_eval_healthcare.relaxed_perplexity.estimator import QUANTITIES
    from lm_eval_healthcare.scoring.relaxed import DEFAULT_READINGS, READINGS, combined

    sets = {"default": list(DEFAULT_READINGS), "all": list(READINGS)}
    names: list[str] = []
    for text in given or ["default"]:
        for name in text.replace("+", ",").split(","):
            if name in sets:
                names += sets[name]
            elif name in READINGS:
                names.append(name)
            elif name:
                close = difflib.get_close_matches(name, READINGS, n=1)
                hint = f". Did you mean {close[0]}?" if close else "."
                hint = "; a PATH goes before --reading." if Path(text).exists() else hint
                raise UserError(
                    f"--reading {name}: no such reading{hint} There are {', '.join([*sets, *QUANTITIES])}, and their "
                    "variants; see lm-eval-healthcare relaxed --help"
                )
    return list(dict.fromkeys(combined(name, combination) for name in names))


def _whole(least: int) -> Any:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError
        return value

    number.__name__ = f"whole number of {least} or more"  # argparse says `invalid ... value`
    return number


def _thinned_settings(source: Source, args: argparse.Namespace) -> Settings:
    from lm_eval_healthcare.results.names import printable
    from lm_eval_healthcare.scoring.relaxed import thinned_settings

    try:
        return thinned_settings(source.about.settings, stride=args.stride, length=args.length, keep=args.keep)
    except ValueError as error:
        raise UserError(f"--{error} ({printable(source.path)})") from error


def _reduced(source: Source, settings: Settings, readings: list[str], args: argparse.Namespace) -> Reduced:
    from lm_eval_healthcare.report.relaxed_figure import Panel
    from lm_eval_healthcare.results.names import printable
    from lm_eval_healthcare.scoring.relaxed_summary import reduce_documents

    about = source.about
    panel = Panel(printable(f"{about.task}, {Path(about.model).name}")) if args.figure else None
    documents = _documents(source, args, panel)
    return Reduced(source, settings, reduce_documents(documents, settings, readings), panel)


def _documents(source: Source, args: argparse.Namespace, panel: Panel | None) -> Iterator[Document]:
    from tqdm import tqdm

    from lm_eval_healthcare.relaxed_perplexity.matrix_file import Document

    thin = {name: getattr(args, name) for name in ("stride", "length", "keep")}
    thin = {name: value for name, value in thin.items() if value is not None}
    for document in tqdm(source.documents(), desc=source.about.task, unit=" documents", disable=None, leave=False):
        matrix = document.matrix.thinned(**thin) if thin else document.matrix
        if panel is not None:
            panel.add(matrix, document.groups, COMBINE[args.combine or "averaged"])
        yield Document(document.doc_id, matrix)


def _put_out(text: str, output: Path | None) -> None:
    from lm_eval_healthcare.cli.relaxed_output import write_whole

    if output is None:
        print(text, end="")
        return
    write_whole(output, text)
    print(f"written: {output}", file=sys.stderr)


def _source_line(done: list[Reduced], args: argparse.Namespace) -> str:
    import lm_eval_healthcare
    from lm_eval_healthcare.relaxed_perplexity.estimator import COMBINATIONS
    from lm_eval_healthcare.results.names import printable

    names = [printable(one.source.path.name) for one in done]
    files = names[0] if len(names) == 1 else f"{len(names)} files"
    measured = " and ".join(
        dict.fromkeys(
            f"s={s.samples}, l={s.keep or 'all'}, n={s.length}, stride {s.stride}"
            for s in (one.settings for one in done)
        )
    )
    how = COMBINATIONS[COMBINE[args.combine or "averaged"]]
    return f"Source: {files}\n{measured}; {how}; lm_eval_healthcare {lm_eval_healthcare.__version__}"
