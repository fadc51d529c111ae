"""The command line's entry point."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING

import lm_eval_healthcare
from lm_eval_healthcare.cli.errors import report_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "run": "run the harness with the pack's tasks (takes what `lm_eval run` takes)",
    "list": "show tasks, their rows, languages, metrics, licences and sources",
    "check": "find everything that would stop a run, before any model is loaded",
    "plan": "count requests and tokens, and estimate the time, of a run and its judge, without running them",
    "score": "score logged samples or saved answers again, without a model",
    "judge": "let a language model grade logged samples from 1 to 5, resumable, local by default",
    "judge-check": "see how far a judge can be trusted: agreement, length, order, people's grades",
    "rephrase": "reword saved answers six times each, by a model or by rules, to see how metrics move",
    "compare": "compare two runs on the same documents: paired tests, language gap, scores by year",
    "results": "make one table of result files of any age: newest complete runs, everything else with the reason",
    "relaxed": "read Relaxed Perplexity from stored matrices in any way, without a model",
    "consistency": "show how much scores move when a model is asked the same question again",
    "resilience": "show how much scores move when answers are only reworded",
    "correlate": "show how benchmarks and metrics go together over models, from results files alone",
    "export": "write results for leaderboards, registries and papers: hub, Every Eval Ever, LaTeX, markdown",
    "report": "write one HTML file: coverage, leaderboard, benchmarks, answers side by side, correlations",
    "data": "fetch, convert, check, export and describe the benchmarks' rows",
    "path": "print the folder of the pack's task YAMLs, for --include_path",
    "enable": "let the unmodified `lm_eval` command find the pack's tasks",
    "disable": "take `enable` back",
    "demo-model": "write a small real model (SmolLM2-135M-Instruct, Apache-2.0) as a folder, without a hub",
    "doctor": "show versions, which file each task name resolves to, and what is reachable",
}
_OF_THE_HARNESS = ("run", "plan")  # what stands after them the harness understands, and argparse does not
_EXAMPLE = """\
example:
  lm-eval-healthcare run --model hf --model_args pretrained=MODEL --tasks careqa_open,medtext \\
      --metadata data=sample metrics=ngram --output_path results --log_samples
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in _OF_THE_HARNESS:
        module = importlib.import_module(f"lm_eval_healthcare.cli.{arguments[0]}")
        return report_errors(module.execute, arguments[1:])
    parser = argparse.ArgumentParser(
        prog="lm-eval-healthcare",
        description="Healthcare tasks, metrics and analyses for EleutherAI's lm-evaluation-harness.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {lm_eval_healthcare.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, help_text in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=help_text, description=help_text[0].upper() + help_text[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if name not in _OF_THE_HARNESS:
            module = importlib.import_module(f"lm_eval_healthcare.cli.{name.replace('-', '_')}")
            module.add_arguments(subparser)
            subparser.set_defaults(execute=module.execute)
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 0
    return report_errors(args.execute, args)


if __name__ == "__main__":
    sys.exit(main())
