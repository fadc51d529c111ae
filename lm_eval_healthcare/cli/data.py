"""`lm-eval-healthcare data`: fetching, converting, checking, exporting and describing the benchmarks' rows."""

from __future__ import annotations

import argparse
import importlib

COMMANDS = {
    "fetch": "copy the hub's rows into a folder that serves a machine without internet",
    "prepare": "convert original files (XML, CSV, TSV, PubTator, JSON, text, spreadsheet) into a data folder",
    "verify": "check a data folder: checksums, row counts, columns",
    "export": "write the questions of tasks as they will be asked, for inspection or other tools",
    "describe": "count and measure the rows: categories, years, lengths, vocabulary, balance, duplicates",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands below `data`."""
    subparsers = parser.add_subparsers(dest="data_command", metavar="COMMAND")
    for name, help_text in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=help_text, description=help_text[0].upper() + help_text[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        module = importlib.import_module(f"lm_eval_healthcare.cli.data_{name}")
        module.add_arguments(subparser)
        subparser.set_defaults(execute_data=module.execute)
    parser.set_defaults(data_parser=parser)
    parser.epilog = "example:\n  lm-eval-healthcare data fetch healthcare_mcqa --to /data/benchmarks"


def execute(args: argparse.Namespace) -> int:
    """Run the command below `data`; without one, say which there are."""
    if args.data_command is None:
        args.data_parser.print_help()
        return 0
    return int(args.execute_data(args))
