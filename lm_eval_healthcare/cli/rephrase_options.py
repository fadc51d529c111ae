"""The options of `rephrase`: which model rewords, where it runs, how it is asked."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.studies.rewording.settings import RewordingSettings

RULES = "rules"
BACKENDS = ("auto", "openai", "hf", "vllm", RULES)
_OF_BACKENDS = (
    "base_url",
    "api_key_env",
    "concurrency",
    "timeout",
    "retries",
    "tokenizer",
    "context",
    "args",
    "device",
)
_SETTINGS: dict[str, tuple[Any, str, str]] = {
    "n": (int, "N", "rewordings of each answer (default: 6)"),
    "temperature": (float, "T", "temperature, in place of the preset's"),
    "top_p": (float, "P", "top_p, in place of the preset's"),
    "repetition_penalty": (float, "R", "repetition penalty (default: 1, which is none)"),
    "max_tokens": (
        int, "N",
        "most tokens of a rewording, with the model's reasoning where it reasons (default: enough for twice the "
        "answer's length, at most 1024)",
    ),
    "attempts": (int, "N", "times that each rewording is drawn until one passes all checks (default: 5)"),
    "seed": (int, "N", "the seed from which those of all requests are made (default: 0)"),
    "failure_limit": (float, "SHARE", "share of rewordings that may be missing before exit code 1 (default: 0.5)"),
}  # fmt: skip


_PLAIN = r"(?<![\w/.-]){}(?![\w/.-]*[\w/-])"
_WORDS = (
    (r" *\(in a run: [^)]*\)", ""), ("--judge-model", "--model"), (_PLAIN.format("to judge"), "to reword"),
    (_PLAIN.format("judge model"), "model"), (_PLAIN.format("judge"), "model"), (_PLAIN.format("verdict"), "rewording"),
    (_PLAIN.format("Verdicts"), "Rewordings"),
)  # fmt: skip


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add everything that is said about who rewords, and how."""
    from lm_eval_healthcare.judge.options import OPTIONS

    parser.allow_abbrev = False
    group = parser.add_argument_group("the model")
    group.add_argument(
        "--backend", choices=BACKENDS, default="auto",
        help="vllm or hf: in this process; openai: any OpenAI-compatible server; rules: fixed rules, no model "
        "(default: openai if there is a base URL, else vllm if it is installed, else hf)",
    )  # fmt: skip
    group.add_argument("--model", metavar="MODEL", help="a folder, a hub id, or the name that a server knows")
    for name in _OF_BACKENDS:
        help_text = OPTIONS[name].help.replace("the judge's", "the model's").replace("an hf judge", "an hf model")
        group.add_argument(f"--{name.replace('_', '-')}", metavar=OPTIONS[name].metavar, help=help_text)
    group = parser.add_argument_group("the rewordings")
    group.add_argument(
        "--preset", choices=("paper",), default="paper",
        help="paper: 6 rewordings, temperature 1, top_p 0.9. The paper does not say at which temperature it had "
        "answers reworded; these are the settings of its other repeated generations",
    )  # fmt: skip
    for name, (kind, metavar, help_text) in _SETTINGS.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=metavar, help=help_text)
    group.add_argument(
        "--instruction", default="pack", metavar="pack|FILE",
        help="your own instruction: .txt with {answer} in it, or .yaml with `user` and `system` (default: pack)",
    )  # fmt: skip
    group.add_argument(
        "--rewording-cache", metavar="FOLDER|off", help="where the model's texts are kept (default: ~/.cache)"
    )
    group.add_argument(
        "--send-credentialed-texts-to-a-remote-judge", action="store_true",
        help="allow texts of credentialed data sets to leave this machine; only if your agreement for the data does",
    )  # fmt: skip


def settings(args: argparse.Namespace) -> RewordingSettings:
    """Return how rewordings are drawn.

    Raises:
        lm_eval_healthcare.studies.rewording.settings.RephraseError: If a value makes no sense.
    """
    from lm_eval_healthcare.studies.rewording.settings import RewordingSettings

    return RewordingSettings.of(args.preset, **{name: getattr(args, name) for name in _SETTINGS})


def model_options(args: argparse.Namespace) -> JudgeOptions:
    """Return which model is asked, and where it runs.

    Raises:
        UserError: If a value cannot be used.
    """
    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.studies.rewording.settings import RephraseError

    if args.model is None and args.base_url is None and args.backend != "openai":
        raise RephraseError(
            "no model is named; give --model with a folder or a hub id, --base-url with a server, or --backend rules, "
            "which needs none"
        )
    given = {name: getattr(args, name) for name in _OF_BACKENDS}
    return JudgeOptions.of(() if args.model is None else (args.model,), {"backend": args.backend, **given})


def refuse_model_options(args: argparse.Namespace) -> None:
    """Refuse options that say something of a model where rules reword.

    Raises:
        lm_eval_healthcare.studies.rewording.settings.RephraseError: If there is one.
    """
    from lm_eval_healthcare.studies.rewording.settings import RephraseError

    names = ("model", *_OF_BACKENDS, *(name for name in _SETTINGS if name not in ("n", "failure_limit")))
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) is not None]
    if given:
        raise RephraseError(f"{', '.join(given)}: --backend rules asks no model; leave that out, or choose a back end")


@contextlib.contextmanager
def about_models() -> Iterator[None]:
    """Let errors of the judge's back ends, which run any model, speak of a model.

    Raises:
        lm_eval_healthcare.studies.rewording.settings.RephraseError: In place of a `JudgeError`.
    """
    from lm_eval_healthcare.judge.errors import JudgeError
    from lm_eval_healthcare.studies.rewording.settings import RephraseError

    try:
        yield
    except JudgeError as error:
        text = str(error)
        for pattern, word in _WORDS:
            text = re.sub(pattern, word, text)
        raise RephraseError(text) from error
