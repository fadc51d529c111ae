"""Options of the tasks that ask each question several times, and what sampling such a task needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lm_eval_healthcare.harness.options import OptionError, given_option

PAPER_REPEATS = 11
PAPER_SAMPLING: Mapping[str, Any] = {"do_sample": True, "temperature": 1.0, "top_p": 0.9}
"""How the paper asks again, section 3.5."""
_NOT_HERE = {"seed": "repeats_seed", "n": "repeats", "num_return_sequences": "repeats"}


@dataclass(frozen=True)
class RepeatedOptions:
    """What a run says about asking again.

    Attributes:
        repeats: Number of answers to a question, K.
        seed: The run's seed, of which the answers' seeds are made.
        cache: The folder in which answers are kept until a stopped run goes on, `off`, or None for the user's cache.
    """

    repeats: int
    seed: int
    cache: str | None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any] | None, declared: Any = None) -> RepeatedOptions:
        """Read the options; the flag wins over the environment, the environment over the YAML.

        Args:
            metadata: What `--metadata` gave.
            declared: The key `repeats` of the task's YAML.

        Raises:
            OptionError: If a value cannot be used.
        """
        given = given_option("repeats", metadata)
        own = declared if isinstance(declared, int) and declared > 1 else PAPER_REPEATS
        repeats = own if given is None else _number("repeats", given)
        if repeats < 2:
            raise OptionError(
                f"repeats={repeats}: one answer to a question has no variance; give 2 or more (the paper has "
                f"{PAPER_REPEATS}), or run the task without _consistency"
            )
        cache = given_option("repeats_cache", metadata)
        return cls(repeats, _number("repeats_seed", given_option("repeats_seed", metadata) or "0"), cache)

    def as_metadata(self) -> dict[str, str]:
        """Return what `--metadata` would have to hold to give these options."""
        values = {"repeats": self.repeats, "repeats_seed": self.seed, "repeats_cache": self.cache}
        return {name: str(value) for name, value in values.items() if value is not None}


def sampled(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a YAML's generation arguments with the paper's sampling where they say nothing of a temperature.

    A YAML that includes an open-ended task has that one's `do_sample: false`, which can not be meant here.
    """
    given = dict(arguments or {})
    return given if "temperature" in given else {**given, **PAPER_SAMPLING}


def refuse_greedy(task: str, arguments: Mapping[str, Any] | None) -> None:
    """Refuse generation arguments that give one answer K times.

    Args:
        task: The task's name.
        arguments: What the model would be given.

    Raises:
        OptionError: If they do.
    """
    used = dict(arguments or {})
    for name, instead in _NOT_HERE.items():
        if name in used:
            raise OptionError(f"{task}: {name} in --gen_kwargs is set by the task itself; use --metadata {instead}=N")
    greedy = {
        "do_sample=false": _is_false(used.get("do_sample")),
        f"temperature={used.get('temperature')}": _is_zero(used.get("temperature", 1.0)),
        "top_k=1": str(used.get("top_k")) == "1",
        f"top_p={used.get('top_p')}": _is_zero(used.get("top_p", 1.0)),
    }
    found = next((text for text, holds in greedy.items() if holds), None)
    if found is not None:
        raise OptionError(
            f"{task}: {found} gives the same answer each time, and this task is about how answers differ; leave it "
            "out for the paper's temperature of 1, or give --gen_kwargs do_sample=true,temperature=T with T above 0"
        )


def _is_zero(value: Any) -> bool:
    try:
        return float(value) <= 0
    except (TypeError, ValueError):
        return False  # the model's back end says what is wrong with it


def _is_false(value: Any) -> bool:
    return value is not None and str(value).strip().lower() in ("false", "0", "no", "off")


def _number(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text.strip()):
        raise OptionError(f"{name}={text}: expected a whole number, such as {PAPER_REPEATS}")
    return int(text)
