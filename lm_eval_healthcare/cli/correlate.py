"""`lm-eval-healthcare correlate`: how benchmarks and metrics go together over models, from results files alone."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from lm_eval_healthcare.analysis.scores import Correlation, Scores
    from lm_eval_healthcare.analysis.selections import Selection
    from lm_eval_healthcare.results.cell import Table

METHODS = ("pearson", "spearman", "kendall")
_EPILOG = """\
PATH is a folder that holds results of the harness at any depth, of many models and ages, or such a file. OUT takes
correlations.json, scores.csv, matrices of coefficients and of numbers of models as csv, and pictures as svg and png.
Coefficients are those of the numbers as they stand: an accuracy and a perplexity that agree have a negative one, unless
--align turns metrics round of which less is better.

examples:
  lm-eval-healthcare correlate results -o correlations
  lm-eval-healthcare correlate results -o correlations --method pearson --figure 1 10
  lm-eval-healthcare correlate results -o correlations --join elo.csv --figure 9
  lm-eval-healthcare correlate results -o correlations --clusters --claims
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the paths, the statistics, and what is drawn."""
    from lm_eval_healthcare.analysis.selections import FIGURES
    from lm_eval_healthcare.cli.results_options import add_table_options

    parser.allow_abbrev = False
    add_table_options(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="where to write")
    parser.add_argument("--method", choices=METHODS, default="spearman", help="coefficient (default: %(default)s)")
    parser.add_argument(
        "--min-models", type=_at_least(3), default=3, metavar="N",
        help="fewest models of a pair, at least 3 (default: 3; below 5 a pair is flagged)",
    )  # fmt: skip
    parser.add_argument(
        "--filter", action="append", default=[], metavar="TASK=NAME", help="the filter of a task that has several"
    )
    parser.add_argument("--join", type=Path, metavar="CSV", help="outside columns by model, such as Elo ratings")
    parser.add_argument(
        "--figure", nargs="+", choices=FIGURES, default=[], metavar="N",
        help=f"the paper's figures ({', '.join(FIGURES)}) instead of everything against everything",
    )  # fmt: skip
    parser.add_argument(
        "--clusters", action="store_true", help="group the columns by 1 - |r|, with the groups' stability and a tree"
    )
    parser.add_argument("--claims", action="store_true", help="check the paper's statements on these results")
    parser.add_argument("--log", action="store_true", help="take the logarithms of perplexities")
    parser.add_argument(
        "--align", action="store_true",
        help="turn metrics round of which less is better, so that above 0 always means: better here, better there",
    )  # fmt: skip
    parser.add_argument("--listwise", action="store_true", help="only models that have all columns")
    parser.add_argument("--adjust", choices=("holm", "bh"), help="correct p-values for the number of pairs")
    parser.add_argument("--bootstrap", type=_at_least(0), default=2000, metavar="N", help="draws (default: 2000)")
    parser.add_argument("--seed", type=_at_least(0), default=0, metavar="N", help="of the draws (default: 0)")
    parser.add_argument("--no-figures", action="store_true", help="draw nothing")
    parser.epilog = _EPILOG


def execute(args: argparse.Namespace) -> int:
    """Read, correlate, write and draw.

    Returns:
        1 if a file is broken and `--strict` is given; 0 also where pairs are undefined: that is a result, with its
        reason.
    """
    from lm_eval_healthcare.cli.correlate_output import write_json, write_matrix, write_ranks, write_scores
    from lm_eval_healthcare.cli.results_options import exit_code, table_of
    from lm_eval_healthcare.errors import UserError
    from lm_eval_healthcare.results.outside_columns import join_csv
    from lm_eval_healthcare.results.score_matrix import WEIGHTED, score_matrix

    table = table_of(args)
    scores = score_matrix(table.cells, _filters(args.filter), weighted="1" in args.figure or args.claims)
    if args.join is not None:
        scores = join_csv(scores, args.join)
    _tell(table, scores)
    if not scores.columns:
        raise UserError("there is nothing to correlate: no value is there, or none fits --where; see the notes above")
    try:
        args.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{args.output}: no folder can be made there ({error}); choose another with -o") from error
    write_scores(args.output / "scores.csv", scores)
    selections = _selections(scores, args.figure, WEIGHTED)
    found = _correlations(scores, args)
    wanted = {frozenset(pair) for one in selections for pair in _pairs(one)}
    kept = [one for one in found if not args.figure or frozenset((one.x, one.y)) in wanted]
    write_json(args.output / "correlations.json", kept)
    for one in selections:
        write_matrix(args.output, one, scores, found, args)
    if "18" in args.figure:
        write_ranks(args.output, scores, args)
        print(f"ranks of models by column: {args.output / 'ranks.csv'}")
    _summary(kept, args)
    if args.clusters:
        from lm_eval_healthcare.cli.correlate_clusters import write_clusters

        write_clusters(scores, args)
    if args.claims:
        _claims(scores, args.seed)
    return exit_code(args, table)


def _tell(table: Table, scores: Scores) -> None:
    for note in [*table.notes, *scores.notes]:
        print(f"note: {note}", file=sys.stderr)
    if table.set_aside:
        reasons: dict[str, int] = {}
        for one in table.set_aside:
            kind = one.reason.partition(":")[0].partition(" by ")[0]
            reasons[kind] = reasons.get(kind, 0) + 1
        said = "; ".join(f"{n} {reason}" for reason, n in reasons.items())
        print(f"set aside: {said} (`lm-eval-healthcare results` lists them)", file=sys.stderr)
    print(f"{len(scores.models)} models, {len(scores.columns)} columns", file=sys.stderr)


def _correlations(scores: Scores, args: argparse.Namespace) -> list[Correlation]:
    import numpy as np

    from lm_eval_healthcare.analysis.correlation import correlate
    from lm_eval_healthcare.analysis.directions import PERPLEXITIES

    return correlate(
        scores, args.method, min_models=args.min_models, log_metrics=PERPLEXITIES if args.log else (),
        align_directions=args.align, listwise=args.listwise, n_bootstrap=args.bootstrap,
        rng=np.random.default_rng(args.seed), adjust=args.adjust,
    )  # fmt: skip


def _selections(scores: Scores, figures: Sequence[str], weighted: str) -> list[Selection]:
    from lm_eval_healthcare.analysis.selections import everything, figure

    if not figures:
        return everything(scores)
    found: list[Selection] = []
    for number in figures:
        if number == "18":
            continue
        one = figure(scores, number, weighted)
        if not one:
            hint = "; give outside columns with --join" if number == "9" else ""
            print(f"figure {number}: these results do not hold what it is about{hint}", file=sys.stderr)
        found += one
    return found


def _pairs(selection: Selection) -> Iterable[tuple[str, str]]:
    return ((x, y) for x in selection.rows for y in selection.columns if x != y)


def _summary(found: Sequence[Correlation], args: argparse.Namespace) -> None:
    from lm_eval_healthcare.cli.tables import table

    defined = [one for one in found if not math.isnan(one.r)]
    reasons: dict[str, int] = {}
    for one in found:
        if one.reason is not None:
            reasons[one.reason] = reasons.get(one.reason, 0) + 1
    print(
        f"{len(found)} pairs, {len(defined)} with a coefficient" + "".join(f", {n} {why}" for why, n in reasons.items())
    )
    strongest = sorted(defined, key=lambda one: -abs(one.r))[:10]
    if strongest:
        print(
            table(
                [
                    {
                        "x": one.x, "y": one.y, args.method: f"{one.r:.3f}",
                        "95% interval": "-" if math.isnan(one.low) else f"{one.low:.2f} to {one.high:.2f}",
                        "p": "-" if math.isnan(one.p) else f"{one.p:.3g}", "n": one.n, "flags": " ".join(one.flags),
                    }
                    for one in strongest
                ],
                ["x", "y", args.method, "95% interval", "p", "n", "flags"],
            )
        )  # fmt: skip
    print(f"\nwritten: {args.output}")


def _claims(scores: Scores, seed: int) -> None:
    import numpy as np

    from lm_eval_healthcare.analysis.claims import check_claims

    print("\nthe paper's statements on these results:")
    for claim in check_claims(scores, rng=np.random.default_rng(seed)):
        value = "" if math.isnan(claim.value) else f"{claim.measured} {claim.value:.3f}"
        between = "" if math.isnan(claim.low) else f", 95% interval {claim.low:.3f} to {claim.high:.3f}"
        about = "; ".join(filter(None, [f"{value}{between}", f"{claim.n} models" if claim.n else "", claim.why]))
        print(f"  {claim.verdict:<14} {claim.statement} ({about})")


def _filters(given: Sequence[str]) -> dict[str, str]:
    from lm_eval_healthcare.errors import UserError

    found = {}
    for item in given:
        task, sign, name = item.partition("=")
        if not sign or not task or not name:
            raise UserError(f"--filter {item}: expected TASK=NAME")
        found[task] = name
    return found


def _at_least(least: int) -> Any:
    import argparse

    def whole(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text}: expected {least} or more")
        return value

    return whole
