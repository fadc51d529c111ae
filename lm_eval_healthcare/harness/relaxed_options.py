"""Options of the tasks that measure Relaxed Perplexity: the settings of the measurement, and how it is computed."""

from __future__ import annotations

import difflib
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.harness.options import OptionError, given_option
from lm_eval_healthcare.harness.relaxed_engines import ENGINES
from lm_eval_healthcare.relaxed_perplexity import Settings
from lm_eval_healthcare.relaxed_perplexity.settings import ALL, HOW, PREFIX, option_names
from lm_eval_healthcare.scoring.relaxed import DEFAULT_READINGS, READINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

_DELIMITERS = {"space": " ", "none": ""}
_SWITCH = ("on", "off")


@dataclass(frozen=True)
class RelaxedOptions:
    """What a run says about Relaxed Perplexity.

    Attributes:
        settings: The settings of the measurement.
        engine: The engine that is wanted, or `auto`.
        memory: GiB that the transformers engine may use beside the model, or None.
        delimiter: What stands before each target.
        chat_template: Whether the prompt follows the run's chat template.
        readings: The readings that are reported.
    """

    settings: Settings
    engine: str
    memory: float | None
    delimiter: str
    chat_template: bool
    readings: tuple[str, ...]

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any] | None) -> RelaxedOptions:
        """Read the options; the flag wins over the environment, the environment over the default.

        Raises:
            OptionError: If a value cannot be used.
        """
        given = {name: value for name in option_names() if (value := given_option(name, metadata)) is not None}
        try:
            settings = Settings.from_options(given)
        except ValueError as error:
            raise OptionError(str(error)) from error
        if settings.stride > settings.length > 0:
            logger.warning(
                "%sstride=%d is more than %slength=%d: targets are scored at position 0 alone, and the completions "
                "change nothing but the normaliser; give a stride of at most the length, or length 0",
                PREFIX, settings.stride, PREFIX, settings.length,
            )  # fmt: skip
        return cls(
            settings,
            engine=_one_of("engine", given, ENGINES),
            memory=_memory(given.get(PREFIX + "memory")),
            delimiter=_DELIMITERS[_one_of("delimiter", given, tuple(_DELIMITERS))],
            chat_template=_one_of("chat_template", given, _SWITCH) == "on",
            readings=_readings(given.get(PREFIX + "readings", "default")),
        )

    def as_metadata(self) -> dict[str, str]:
        """Return what `--metadata` would have to hold to give these options, wherever they came from."""
        values: dict[str, Any] = {
            **{name: ALL if value is None else value for name, value in self.settings.as_dict().items()},
            "engine": self.engine,
            "memory": self.memory,
            "delimiter": delimiter_name(self.delimiter),
            "chat_template": _SWITCH[0] if self.chat_template else _SWITCH[1],
            "readings": "+".join(self.readings),
        }
        return {PREFIX + name: str(value) for name, value in values.items() if value is not None}


def delimiter_name(text: str) -> str:
    """Return the name of what stands before each target; of an unknown one its text, in quotation marks."""
    return next((name for name, known in _DELIMITERS.items() if known == text), repr(text))


def _one_of(name: str, given: Mapping[str, str], allowed: tuple[str, ...]) -> str:
    value = given.get(PREFIX + name, allowed[0])
    if value not in allowed:
        raise OptionError(f"{PREFIX}{name}={value}: expected one of {', '.join(allowed)}; {HOW[name]}")
    return value


def _memory(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise OptionError(f"{PREFIX}memory={text}: expected a number of GiB above 0; {HOW['memory']}")
    return value


def _readings(text: str) -> tuple[str, ...]:
    named = {"default": DEFAULT_READINGS, "all": tuple(READINGS)}
    if text in named:
        return named[text]
    names = tuple(dict.fromkeys(part.strip() for part in text.split("+") if part.strip()))
    for name in names:
        if name not in READINGS:
            close = difflib.get_close_matches(name, READINGS, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            hint = "; join names by +, not by commas" if "," in name else hint
            raise OptionError(f"{PREFIX}readings={text}: no reading {name}; there are {', '.join(READINGS)}{hint}")
    if not names:
        raise OptionError(f"{PREFIX}readings={text}: give names joined by +, `default` or `all`")
    return names
