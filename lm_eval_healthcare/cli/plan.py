"""`lm-eval-healthcare plan`: what a run would cost, before anything is spent."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING

from lm_eval_healthcare.cli.tables import add_format, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_eval_healthcare.harness.plan import PlanOptions

_PROBE_SECONDS = 30.0
_EPILOG = """\
Everything else is what `lm-eval-healthcare run` takes (--tasks, --model, --model_args, --metadata, --num_fewshot,
--limit, --apply_chat_template, --gen_kwargs, --include_path, ...) and says what is run; see `lm-eval-healthcare run
--help`.

example:
  lm-eval-healthcare plan --model vllm --model_args pretrained=MODEL --tasks healthcare_open --apply_chat_template \\
      --prompt-tokens-per-second 20000 --output-tokens-per-second 2000 \\
      --judge-model prometheus-7b-v2.0 --judge-prompt-tokens-per-second 20000 --judge-output-tokens-per-second 1500
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's own options; the harness reads the others."""
    own = argparse.ArgumentParser(
        prog="lm-eval-healthcare plan",
        usage="lm-eval-healthcare plan --tasks TASKS [options below] [options of `lm-eval-healthcare run`]",
        description="Count documents, requests and tokens of a run and its judge, and estimate the time they take. "
        "The model is not loaded, unless --probe is given.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    own.add_argument(
        "--prompt-tokens-per-second", type=_positive, metavar="N",
        help="tokens of prompts that the model reads per second, over all requests that run at once",
    )  # fmt: skip
    own.add_argument(
        "--output-tokens-per-second", type=_positive, metavar="N", help="likewise, tokens of answers that it writes"
    )
    own.add_argument(
        "--probe", type=_positive, nargs="?", const=_PROBE_SECONDS, metavar="SECONDS",
        help="load the model and run the first documents for so many seconds (without a number: "
        f"{_PROBE_SECONDS:.0f}), to measure both",
    )  # fmt: skip
    own.add_argument(
        "--answer-tokens", type=_whole, metavar="N",
        help="tokens of a usual answer (default: what the probe finds, or the length of the reference)",
    )  # fmt: skip
    judge = own.add_argument_group("the judge")
    judge.add_argument("--judge-model", metavar="DIR|NAME", help="count what this judge would be asked, too")
    for name, metavar, text in (
        ("tokenizer", "DIR", "a folder with its tokenizer, where the judge is a server's model"),
        ("wording", "NAME|FILE", "as for `lm-eval-healthcare judge`: auto, pack, prometheus or a template file"),
        ("rubric", "NAME|FILE", "as for `lm-eval-healthcare judge`: auto, a packaged rubric or a file"),
        ("preset", "NAME", "paper (default) or reproducible"),
        ("max-tokens", "N", "most tokens of a verdict (default: 1024)"),
        ("attempts", "N", "times that an answer is shown until there is a verdict (default: the preset's)"),
        ("samples", "N", "verdicts for each answer (default: 1)"),
    ):
        judge.add_argument(f"--judge-{name}", metavar=metavar, help=text)
    judge.add_argument("--judge-prompt-tokens-per-second", type=_positive, metavar="N", help="how fast it reads")
    judge.add_argument("--judge-output-tokens-per-second", type=_positive, metavar="N", help="how fast it writes")
    add_format(own)
    return own


def execute(argv: Sequence[str]) -> int:
    """Print the plan."""
    if not argv:
        parser().print_help()
        return 0
    args, rest = parser().parse_known_args(list(argv))
    options = _options(args)
    from lm_eval_healthcare.cli.plan_tables import print_plan
    from lm_eval_healthcare.harness.plan import plan

    with contextlib.redirect_stdout(sys.stderr):  # the harness and vLLM print there, too, what is no part of a plan
        found = plan(rest, options)
    if args.format == "json":
        print_json(found.as_dict())
    else:
        print_plan(found)
    return 0


def _options(args: argparse.Namespace) -> PlanOptions:
    from lm_eval_healthcare.harness.plan import PlanOptions, Rates
    from lm_eval_healthcare.judge.errors import JudgeError
    from lm_eval_healthcare.judge.options import JudgeOptions

    prefix = "judge_"
    given = {name.removeprefix(prefix): value for name, value in vars(args).items() if name.startswith(prefix)}
    model = given.pop("model")
    rates = Rates(given.pop("prompt_tokens_per_second"), given.pop("output_tokens_per_second"))
    if model is None and (strange := sorted(name for name, value in given.items() if value is not None)):
        names = ", ".join(f"--judge-{name.replace('_', '-')}" for name in strange)
        raise JudgeError(f"{names} without --judge-model: name the judge, by its folder or its name")
    return PlanOptions(
        rates=Rates(args.prompt_tokens_per_second, args.output_tokens_per_second),
        probe=args.probe or 0,
        answer_tokens=args.answer_tokens,
        judge=None if model is None else JudgeOptions.of((model,), given),
        judge_rates=rates,
    )


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0")
    return value


def _whole(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 0")
    return int(text)
