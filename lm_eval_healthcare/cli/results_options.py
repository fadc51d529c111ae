"""Options of every command that reads result files: which values count, and which of them are wanted."""

from __future__ import annotations

import sys
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare.cli.given_paths import refuse_no_path, take_paths
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lm_eval_healthcare.results.cell import Cell, Rules, Table

_WHERE = ("model", "task", "metric", "filter")


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the paths, and the options by which values are chosen."""
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH",
        help="a folder that holds results of the harness at any depth, or such a file",
    )  # fmt: skip
    parser.add_argument(
        "--where", nargs="+", action="extend", default=[], metavar="KIND=PATTERN",
        help="only model=, task=, metric= or filter=PATTERN, such as task=careqa*; several of a kind: any of them",
    )  # fmt: skip
    parser.add_argument("--allow-partial", action="store_true", help="take runs over a part of the documents (--limit)")
    parser.add_argument("--allow-legacy", action="store_true", help="take results of the harness before 0.4")
    parser.add_argument("--allow-unusable", action="store_true", help="take values that the run itself calls unusable")
    parser.add_argument(
        "--min-coverage", type=_share, default=0.95, metavar="SHARE",
        help="least share of documents with a score, 0 to 1, where it is told (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--groups", action="store_true", help="keep values of groups beside those of their tasks")
    parser.add_argument(
        "--strict-protocol", action="store_true",
        help="leave values out that were made in another way (shots, version, template, ...) than those of most models",
    )  # fmt: skip
    parser.add_argument("--by-revision", action="store_true", help="take revisions of a model for different models")
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a file is broken")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes that read files (default: as many as pay)")
    parser.add_argument(
        "--cache", type=Path, metavar="FILE|off", help="where it is kept what unchanged files hold (default: ~/.cache)"
    )


def rules_of(args: argparse.Namespace) -> Rules:
    """Return how values are chosen."""
    from lm_eval_healthcare.results.cell import Rules

    return Rules(
        allow_partial=args.allow_partial,
        allow_legacy=args.allow_legacy,
        allow_unusable=args.allow_unusable,
        min_coverage=args.min_coverage,
        groups=args.groups,
        strict_protocol=args.strict_protocol,
        by_revision=args.by_revision,
    )


def table_of(args: argparse.Namespace) -> Table:
    """Read the table that the options ask for, and say on stderr how many files were skipped.

    Raises:
        UserError: If a path does not exist, or a pattern is not one.
    """
    from lm_eval_healthcare.results.cell import read_table

    take_paths(args, "where")
    refuse_no_path(args, args.command)
    wanted = patterns(args.where)
    table = read_table(args.paths, rules_of(args), jobs=args.jobs, cache=args.cache)
    if wanted:
        table.cells = [cell for cell in table.cells if _fits(cell, wanted)]
        table.set_aside = [one for one in table.set_aside if _fits(one.cell, wanted)]
    tell_skipped(table)
    return table


def patterns(values: Sequence[str]) -> dict[str, list[str]]:
    """Return the patterns of `--where` by what they are about.

    Raises:
        UserError: If an item is not `model=`, `task=`, `metric=` or `filter=PATTERN`.
    """
    out = defaultdict(list)
    for value in values:
        kind, _, pattern = value.partition("=")
        if kind not in _WHERE or not pattern:
            raise UserError(
                f"--where {value}: expected {', '.join(f'{one}=PATTERN' for one in _WHERE[:-1])} or "
                f"{_WHERE[-1]}=PATTERN, such as task=careqa*"
            )
        out[kind].append(pattern.casefold())
    return dict(out)


def tell_skipped(table: Table) -> None:
    """Say on stderr how many files gave no values, and which of them are broken."""
    from lm_eval_healthcare.results.names import printable

    broken = [one for one in table.skipped if one.broken]
    for one in broken:
        print(f"skipped: {printable(one.file)}: {one.reason}", file=sys.stderr)
    n = len(table.skipped)
    rest = f", {len(broken)} of them broken" if broken else ""
    print(f"{table.files} results files read, {n} file{'s' * (n != 1)} skipped{rest}", file=sys.stderr)


def exit_code(args: argparse.Namespace, table: Table) -> int:
    """Return 1 if a file is broken and that matters, else 0."""
    return int(args.strict and any(one.broken for one in table.skipped))


def _fits(cell: Cell, wanted: dict[str, list[str]]) -> bool:
    return all(
        any(fnmatchcase(getattr(cell, kind).casefold(), pattern) for pattern in found) for kind, found in wanted.items()
    )


def _share(text: str) -> float:
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a share from 0 to 1, such as 0.95")
    return value
