"""The options of `judge` and its relatives: which judge, where it runs, how it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from lm_eval_healthcare.data.catalogue import TaskFacts
    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.judge.rubric import Rubric


def add_judge_options(
    parser: argparse.ArgumentParser,
    title: str = "the judge",
    averaged: str = "averaged and whose agreement is shown",
    prefix: str = "",
) -> None:
    """Add everything that is said about judges.

    Args:
        parser: Gets the options.
        title: The heading of their group.
        averaged: What becomes of the scores of several judges.
        prefix: What all names begin with, where a command has other options of the same names.
    """
    from lm_eval_healthcare.judge.options import OPTIONS

    parser.allow_abbrev = False
    group = parser.add_argument_group(title)
    group.add_argument(
        "--judge-model", action="append", default=[], metavar="MODEL",
        help="a folder, a hub id, or the name that a server knows; repeat it for several judges, whose scores are "
        + averaged,
    )  # fmt: skip
    for name, option in OPTIONS.items():
        values: dict[str, Any] = {"choices": option.values} if option.values else {"metavar": option.metavar}
        flag = f"--{prefix}{name.replace('_', '-')}"
        group.add_argument(flag, dest=f"judge_{name}", help=option.help, **values)
    group.add_argument(
        "--verdict-cache", metavar="FOLDER|off", help="where the judge's texts are kept (default: ~/.cache)"
    )
    group.add_argument(
        "--send-credentialed-texts-to-a-remote-judge", action="store_true",
        help="allow texts of credentialed data sets to leave this machine; only if your agreement for the data does",
    )  # fmt: skip


def judge_options(args: argparse.Namespace) -> JudgeOptions:
    """Return what was said, checked.

    Raises:
        lm_eval_healthcare.judge.errors.JudgeError: If a value cannot be used.
    """
    from lm_eval_healthcare.judge.options import OPTIONS, JudgeOptions

    given = {name: getattr(args, f"judge_{name}") for name in OPTIONS}
    return JudgeOptions.of(tuple(dict.fromkeys(args.judge_model)), given)


def known_tasks(
    include_path: list[str],
) -> tuple[Callable[[str, Mapping[str, Any]], TaskFacts | None], Callable[[str, Mapping[str, Any]], bool]]:
    """Return what tells the facts of a task, and what tells whether a judge can grade its answers."""
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.cli.data_arguments import roots
    from lm_eval_healthcare.judge.outcome import METRIC
    from lm_eval_healthcare.scoring.saved_facts import KnownTasks

    pack, *own = roots(include_path)
    known = KnownTasks([*own, pack])
    texts = [*metrics.AVAILABLE, METRIC]
    return known.facts, lambda task, metadata: known.has_texts(task, metadata, texts)


def rubrics(options: JudgeOptions) -> Callable[[str, str], Rubric]:
    """Return what gives the rubric of a task in a language; a file is read once, before anything is asked."""
    from functools import cache

    from lm_eval_healthcare.judge.rubric import rubric_for

    return cache(lambda task, language: rubric_for(task, options.rubric, language))
