"""The options of `score`: what it is told by flags, by `--metadata`, and by the environment."""

from __future__ import annotations

import argparse
import difflib
import json
import logging
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.cli.given_paths import refuse_no_path, take_paths
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger("lm_eval_healthcare")

_WHERE = ("model", "task")


class ParserWithMetricOptions(argparse.ArgumentParser):
    """A parser that adds a flag for every option of a metric when it is used.

    To know them, all metrics must be loaded, which would slow every other command down.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Add the flags, then parse."""
        from lm_eval_healthcare import metrics
        from lm_eval_healthcare.scoring.saved_samples import HOW  # those have flags of their own

        if "metric_options" not in self._defaults:
            names = [name for name in metrics.option_names() if name not in HOW]
            group = self.add_argument_group("options of single metrics (default: those of the run)")
            for name in names:
                users = [metric.name for metric in metrics.AVAILABLE.values() if name in metric.options]
                group.add_argument(
                    f"--{name.replace('_', '-')}", f"--{name}", dest=name, default=None, metavar=_metavar(name),
                    help=f"of {', '.join(users)}" if len(users) < 4 else "of all neural metrics",
                )  # fmt: skip
            self.set_defaults(metric_options=names)
        found, rest = super().parse_known_args(args, namespace)
        for flag in (one for one in rest if one.startswith("--")):
            close = difflib.get_close_matches(flag.partition("=")[0], self._option_string_actions, n=1)
            self.error(f"there is no {flag}" + (f"; did you mean {close[0]}?" if close else ""))
        return found, rest


def _metavar(name: str) -> str:
    return {"model": "DIR", "layer": "N"}.get(name.rpartition("_")[2], "VALUE")


def given_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the pack that a user gave: `--metadata`, and the flags, which win.

    The metrics may also come from the environment: unlike other options they say what is wanted, not what was.

    Raises:
        UserError: If `--metadata` cannot be read, or holds what is no option.
    """
    options = _metadata(args.metadata)
    flags = {
        "metrics": "+".join(args.metrics).replace(",", "+") if args.metrics else None,
        "metrics_device": args.device,
        "metrics_batch_tokens": args.batch_tokens,
        "metrics_missing": args.metrics_missing,
        "score_cache": args.score_cache,
        **{name: getattr(args, name) for name in args.metric_options},
    }
    options.update({name: value for name, value in flags.items() if value is not None})
    if "metrics" not in options and (metrics := _metrics_of_environment()) is not None:
        options["metrics"] = metrics
    if options:
        from lm_eval_healthcare.harness.options import LATER, option_names

        if any(name not in option_names() for name in options):  # those of single tasks take a look at all YAMLs
            from lm_eval_healthcare.cli.data_arguments import refuse_unknown_options

            refuse_unknown_options(options, args.include_path)
        if options.get("metrics_device") == LATER:
            raise UserError("--device later: this command is what computes scores later; use auto, cpu, cuda or cuda:N")
    return options


def sort_out(args: argparse.Namespace) -> None:
    """Take paths out of the values of flags that take several, to which argparse gives them if they stand behind.

    Raises:
        UserError: If there is no path.
    """
    take_paths(args, "where", "metadata")
    args.metrics, paths = _metrics_and_paths(args.metrics or [])
    args.paths += paths
    refuse_no_path(args, "score")


def _metrics_and_paths(values: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Tell names of metrics from paths, which are no names and are there."""
    from lm_eval_healthcare import metrics

    names, paths = [], []
    for value in values:
        try:
            metrics.resolve(value)
        except ValueError:
            if os.sep in value or Path(value).exists():
                paths.append(Path(value))
                continue
        names.append(value)
    return names, paths


def _metrics_of_environment() -> str | None:
    """Return the metrics that the environment asks for, and say so; a flag would win."""
    from lm_eval_healthcare.harness.options import ENVIRONMENT_PREFIX

    name = f"{ENVIRONMENT_PREFIX}METRICS"
    given = os.environ.get(name) or None
    if given is not None:
        logger.warning("metrics=%s is taken from %s; --metrics wins", given, name)
    return given


def patterns(values: Sequence[str]) -> dict[str, list[str]]:
    """Return the patterns of `--where` by what they are about.

    Raises:
        UserError: If an item is not `model=PATTERN` or `task=PATTERN`.
    """
    out = defaultdict(list)
    for value in values:
        key, _, pattern = value.partition("=")
        if key not in _WHERE or not pattern:
            raise UserError(f"--where {value}: expected model=PATTERN or task=PATTERN, such as task=careqa*")
        out[key].append(pattern)
    return dict(out)


def _metadata(values: Sequence[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if value.lstrip().startswith("{"):
            try:
                out.update(json.loads(value))
            except ValueError as error:
                raise UserError(f"--metadata {value}: not valid JSON ({error}); or write key=value items") from error
        elif equals and key:
            out[key] = text
        else:
            raise UserError(f"--metadata {value}: write key=value items, or one JSON object")
    return out
