"""The pack's run-time options: from the harness's `--metadata`, or from environment variables for fixed pipelines."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import metrics
from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ENVIRONMENT_PREFIX = "LM_EVAL_HEALTHCARE_"
PROMPTS = ("harness", "pack")


class OptionError(UserError, ValueError):
    """An option of the pack has a value or a name that cannot be used."""


@dataclass(frozen=True)
class Options:
    """Options of the pack; each is a key of `--metadata` and, upper-cased behind `LM_EVAL_HEALTHCARE_`, a variable.

    Attributes:
        data: `hub`, `sample`, or a local folder.
        data_revision: Revision of the hub's data set.
        metrics: `default`, `ngram`, `all`, or names joined by `+`.
        prompt: `harness` (the harness's instruction, comparable with published scores) or `pack` (our own wording).
        answers: Folder in which answers are saved before they are scored; `off` saves none.
    """

    data: str = "hub"
    data_revision: str | None = None
    metrics: str = "default"
    prompt: str = "harness"
    answers: str | None = None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any] | None) -> Options:
        """Read the options of one task: the flag wins over the environment, the environment over the default.

        Raises:
            OptionError: If a value is not allowed.
        """
        values: dict[str, Any] = {}
        for name in option_names():
            value = (metadata or {}).get(name)
            if value is None:
                value = os.environ.get(ENVIRONMENT_PREFIX + name.upper()) or None
            if value is not None:
                values[name] = _as_text(value)
                if not values[name].strip():
                    raise OptionError(f"{name}= is empty; give a value, or leave it out for the default")
        options = cls(**values)
        options.metric_names(("en",))
        if (options.answers or "").startswith("~") and os.path.expanduser(options.answers or "") == options.answers:
            raise OptionError(
                f"answers={options.answers}: there is no such user's home here; give a folder by its path"
            )
        if options.prompt not in PROMPTS:
            raise OptionError(f"prompt={options.prompt}: expected one of {', '.join(PROMPTS)}")
        return options

    def metric_names(self, languages: Sequence[str]) -> list[str]:
        """Resolve `metrics` for a task in these languages.

        Raises:
            OptionError: If a name is unknown.
        """
        try:
            return metrics.resolve(self.metrics, languages=tuple(languages))
        except ValueError as error:
            raise OptionError(f"metrics={self.metrics}: {error}") from error


def _as_text(value: Any) -> str:
    if value is False or str(value).lower() == "off":  # YAML reads `off` as False
        return "off"
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def option_names() -> list[str]:
    """Return the names of all options."""
    return [option.name for option in fields(Options)]


def unknown_variables() -> list[str]:
    """Return one message for each environment variable that looks like an option and is none."""
    known = {ENVIRONMENT_PREFIX + name.upper() for name in option_names()} | {ENVIRONMENT_PREFIX + "DEMO_MODEL"}
    strange = sorted(name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX) and name not in known)
    return [f"unknown environment variable {name}; the pack knows {', '.join(sorted(known))}" for name in strange]


def unknown_options(names: Iterable[str], strict: bool) -> list[str]:
    """Return one message for each name that is probably a misspelt option.

    Args:
        names: Keys of `--metadata`.
        strict: Report every unknown name; otherwise only those that nearly are an option, since other tasks and the
            model's arguments share the name space.
    """
    known = option_names()
    messages = []
    for name in names:
        if name in known:
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5 if strict else 0.85)
        if strict or close:
            hint = f"; did you mean '{close[0]}'?" if close else ""
            messages.append(f"unknown option '{name}' in --metadata; the pack knows {', '.join(known)}{hint}")
    return messages
