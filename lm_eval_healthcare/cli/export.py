"""`lm-eval-healthcare export`: results as leaderboards, registries and papers want them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare.cli.results_options import add_table_options, exit_code, patterns, rules_of, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_eval_healthcare.report.exports import Exported
    from lm_eval_healthcare.results.cell import Cell

FORMATS = {
    "hf-eval-results": "YAML files for the folder .eval_results of models on the Hugging Face hub",
    "open-medical-llm": "result files of the Open Medical-LLM leaderboard, a folder a model",
    "every-eval-ever": "records of Every Eval Ever, one a model and results file",
    "latex": "a table for a paper (needs the package booktabs)",
    "markdown": "a table for a README or an issue",
}
_TABLES = {"latex": "table.tex", "markdown": "table.md"}
_RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_EPILOG = (
    "formats:\n"
    + "".join(f"  {name:16} {text}\n" for name, text in FORMATS.items())
    + """
Values that may mislead are left out and named on stderr: runs over a part of the documents, too few documents with a
score, results of a harness before 0.4, results that their own run marks as unusable. Exports hold numbers and settings,
never a text of a document.

examples:
  lm-eval-healthcare export results --to markdown -o table.md --stderr
  lm-eval-healthcare export results --to latex -o table.tex --where metric=acc --percent
  lm-eval-healthcare export results --to hf-eval-results -o hub --rename /models/mine=me/mine
  lm-eval-healthcare export results --to open-medical-llm -o board --model-dtype torch.bfloat16
  lm-eval-healthcare export results --to every-eval-ever -o records --organization "My Hospital"
"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.epilog = _EPILOG
    add_table_options(parser)
    parser.add_argument("--to", required=True, choices=FORMATS, help="the format, see below")
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="OUT",
        help="the folder to write to; for latex and markdown the file, or a folder for table.tex or table.md",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    _add_choice(parser.add_argument_group("which values"))
    _add_looks(parser.add_argument_group("latex and markdown"))
    _add_formats(parser.add_argument_group("other formats"))


def _add_choice(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--allow-mixed-protocols", action="store_true",
        help="put values side by side that were measured in different ways (examples, template, version, prompts)",
    )  # fmt: skip
    group.add_argument(
        "--allow-sample-data", action="store_true",
        help="hand in results on the packaged sample questions; tables show and mark them anyway",
    )  # fmt: skip
    group.add_argument("--parts", action="store_true", help="take values for one category or one judge too")
    group.add_argument("--all-or-nothing", action="store_true", help="write nothing if any value is left out")
    group.add_argument(
        "--rename", action="append", default=[], metavar="MODEL=NAME",
        help="call a model otherwise, such as its name on the hub in place of a local path; repeatable",
    )  # fmt: skip


def _add_looks(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--digits", type=_digits, metavar="N", help="digits behind the point (default: 3; 1 in percent)")
    group.add_argument("--percent", action="store_true", help="shares in percent (also for hf-eval-results)")
    group.add_argument("--stderr", action="store_true", help="standard errors behind the values")
    group.add_argument("--n", action="store_true", help="numbers of documents behind the values")
    group.add_argument(
        "--within-error", action="store_true",
        help="mark values that differ from the best by no more than the standard error of the difference",
    )  # fmt: skip
    group.add_argument("--transpose", action="store_true", help="models as columns")


def _add_formats(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--task-id", action="append", default=[], metavar="TASK=ID",
        help="hf-eval-results: a task's id in the eval.yaml of its dataset (default: the dataset's configuration)",
    )  # fmt: skip
    for name, text in (("url", "the address"), ("name", "the name"), ("user", "the user")):
        group.add_argument(f"--source-{name}", metavar=name.upper(), help=f"hf-eval-results: {text} of the source")
    group.add_argument("--model-dtype", metavar="TYPE", help="open-medical-llm: precision of the weights")
    group.add_argument(
        "--allow-missing", action="store_true", help="open-medical-llm: take models with less than 9 tasks"
    )
    group.add_argument("--organization", default="unknown", metavar="NAME", help="every-eval-ever: who evaluated")
    group.add_argument(
        "--relationship", choices=_RELATIONSHIPS, default="other",
        help="every-eval-ever: how who evaluated stands to the model's makers (default: %(default)s)",
    )  # fmt: skip


def _digits(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 17:
        raise argparse.ArgumentTypeError(f"{text}: expected 0 to 17")
    return value


def execute(args: argparse.Namespace) -> int:
    """Read, choose, export, and say what was left out.

    Returns:
        1 with `--strict` if a file is broken, else 0.

    Raises:
        UserError: If a path or an option cannot be used, nothing may be exported, or files are there already.
    """
    from lm_eval_healthcare.report.exports import ExportError, admitted, renamed, write

    names, ids = (_pairs(option, getattr(args, option)) for option in ("rename", "task_id"))
    if args.percent and args.to in ("open-medical-llm", "every-eval-ever"):
        raise ExportError(f"--percent: {args.to} wants values in the metric's own unit; leave it out")
    table = table_of(args)
    sample = args.allow_sample_data or args.to in _TABLES
    cells, refused = admitted(table, rules_of(args), parts=args.parts, sample=sample)
    if args.to == "open-medical-llm":
        from lm_eval_healthcare.report.export_open_medical import concerns

        refused = [one for one in refused if concerns(one.cell)]
    _say([one.line() for one in refused])
    if not cells:
        raise ExportError(_nothing(bool(refused)))
    found = _export(args, renamed(cells, names), ids)
    left_out = [*(one.line() for one in found.refused), *found.left_out]
    _say([*left_out, *found.notes])
    if args.all_or_nothing and (refused or left_out):
        raise ExportError("something would be left out, see above; with --all-or-nothing nothing was written")
    if not found.documents:
        raise ExportError(f"nothing is left to write as {args.to}; see above what was left out and why")
    if args.to == "open-medical-llm" and _is_inside(args.output, args.paths):
        _say([f"{args.output} lies in what was read: its files look like results, keep them elsewhere"])
    for path in write(found.documents, _folder(args), args.force):
        print(path)
    return exit_code(args, table)


def _export(args: argparse.Namespace, cells: Sequence[Cell], ids: dict[str, str]) -> Exported:
    if args.to == "hf-eval-results":
        from lm_eval_healthcare.report import export_hf

        given = {"url": args.source_url, "name": args.source_name, "user": args.source_user}
        source = {key: value for key, value in given.items() if value}
        any_metric = "metric" in patterns(args.where)
        return export_hf.export(cells, export_hf.HubOptions(any_metric, args.percent, ids, source))
    if args.to == "open-medical-llm":
        from lm_eval_healthcare.report import export_open_medical

        options = export_open_medical.OpenMedicalOptions(
            args.model_dtype, args.allow_missing, args.allow_mixed_protocols
        )
        return export_open_medical.export(cells, options)
    if args.to == "every-eval-ever":
        import time

        from lm_eval_healthcare.report import export_every_eval

        return export_every_eval.export(
            cells, export_every_eval.RecordOptions(time.time(), args.organization, args.relationship)
        )
    from lm_eval_healthcare.report import export_tables

    look = export_tables.Look(
        args.digits, args.percent, args.stderr, args.n, args.within_error, args.transpose, args.allow_mixed_protocols
    )
    return {"latex": export_tables.latex, "markdown": export_tables.markdown}[args.to](cells, look, _file(args))


def _file(args: argparse.Namespace) -> str:
    return args.output.name if _names_file(args) else _TABLES[args.to]


def _folder(args: argparse.Namespace) -> Path:
    return args.output.parent if args.to in _TABLES and _names_file(args) else args.output


def _is_inside(out: Path, paths: Sequence[Path]) -> bool:
    return any(path.is_dir() and out.resolve().is_relative_to(path.resolve()) for path in paths)


def _names_file(args: argparse.Namespace) -> bool:
    return bool(args.output.suffix) and not args.output.is_dir()


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    from lm_eval_healthcare.errors import UserError

    found = {}
    for one in given:
        name, _, value = one.rpartition("=")  # a path may hold an equals sign, a name of the hub does not
        if not name or not value:
            raise UserError(f"--{option.replace('_', '-')} {one}: expected NAME=OTHER")
        found[name] = value
    return found


def _nothing(refused: bool) -> str:
    if refused:
        return "no value may be exported; see above what was left out, and the options that would let it pass"
    return "no value is there, or fits --where; `lm-eval-healthcare results PATH` shows what there is"


def _say(lines: Sequence[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)
