"""How Relaxed Perplexity is measured: everything that is fixed before a model is asked, and the options that set it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

ALL = "all"
ORDERS = ("prefix", "completion")
ENDS = ("stop", "ignore")
PREFIX = "relaxed_"

HELP = {
    "samples": "completions sampled for each question, s in the paper (default 10)",
    "keep": "most likely distinct prefixes that are scored at each position, l in the paper, or `all` (default 5)",
    "length": "tokens of each completion, n in the paper (default 128)",
    "stride": "tokens from one scored position to the next (default 8)",
    "top_p": "share of the probability that completions are sampled from (default 0.9)",
    "temperature": "temperature at which completions are sampled (default 1.0)",
    "seed": "seed of the completions (default 1234)",
    "order": "what `most likely` means: the `prefix` itself (default), or the whole `completion` that it begins",
    "end": "`stop`: a completion that ends leaves the later positions (default); `ignore`: none may end early",
}
"""What each setting means; as an option of a run its name begins with `relaxed_`."""

HOW = {
    "engine": "`auto` (default), `generic`, `transformers` or `vllm`: how the model is asked; the numbers are the same",
    "memory": "GiB that the transformers engine may use beside the model (default: a share of what is free)",
    "delimiter": "what stands before each target: a `space` (default) or `none`",
    "chat_template": "`on` (default): as the run's other tasks; `off`: none, even under --apply_chat_template",
    "readings": "`default`, `all`, or names joined by `+`: what is reported; the stored matrix has the others",
}
"""Options of a run that are no settings of the measurement; their names begin with `relaxed_` too."""


def option_names() -> tuple[str, ...]:
    """Return the names of all options of Relaxed Perplexity."""
    return tuple(PREFIX + name for name in (*HELP, *HOW))


@dataclass(frozen=True)
class Settings:
    """The settings of a measurement; the defaults are the paper's.

    Attributes:
        samples: Completions sampled for each question (s).
        keep: The most prefixes that are scored at each position (l); None: all distinct ones.
        length: Tokens of a completion (n).
        stride: Tokens from one position to the next; positions are 0, stride, 2 stride, ... up to `length`.
        top_p: Nucleus that completions are sampled from, above 0 and at most 1.
        temperature: Temperature at which they are sampled, above 0.
        seed: Seed; every document's own seed is made of it and of the document's question.
        order: By which log-probability prefixes are chosen: `prefix` or `completion`.
        end: `stop`: a completion may end early; `ignore`: the end-of-text token is never sampled.
    """

    samples: int = 10
    keep: int | None = 5
    length: int = 128
    stride: int = 8
    top_p: float = 0.9
    temperature: float = 1.0
    seed: int = 1234
    order: str = "prefix"
    end: str = "stop"

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            ValueError: With the option's name, what was given and what is allowed.
        """
        for name, least in (("samples", 1), ("keep", 1), ("length", 0), ("stride", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{PREFIX}{name}={value}: expected {least} or more; {HELP[name]}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"{PREFIX}top_p={self.top_p}: expected a number above 0, at most 1; {HELP['top_p']}")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"{PREFIX}temperature={self.temperature}: expected a number above 0")
        for name, allowed in (("order", ORDERS), ("end", ENDS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{PREFIX}{name}={getattr(self, name)}: expected one of {', '.join(allowed)}")

    @property
    def positions(self) -> range:
        """The prefix lengths at which targets are scored, 0 among them."""
        return range(0, self.length + 1, self.stride)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Settings:
        """Read settings from options whose names begin with `relaxed_`; other options are left alone.

        Raises:
            ValueError: If a value cannot be used.
        """
        given = {name: options[PREFIX + name] for name in HELP if options.get(PREFIX + name) is not None}
        return cls(**{name: _read(name, str(value).strip()) for name, value in given.items()})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """Read what `as_dict` wrote; values of later versions that this one does not know are ignored."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, None for a `keep` of all."""
        return asdict(self)

    @property
    def signature(self) -> str:
        """The settings as a part of a score's signature: equal ones mean comparable numbers."""
        keep = ALL if self.keep is None else self.keep
        return (
            f"s:{self.samples}|l:{keep}|n:{self.length}|stride:{self.stride}|top_p:{self.top_p:g}|"
            f"temperature:{self.temperature:g}|seed:{self.seed}|order:{self.order}|end:{self.end}"
        )


def _read(name: str, text: str) -> Any:
    if name in ("order", "end"):
        return text
    if name == "keep" and text == ALL:
        return None
    kind: type[int] | type[float] = float if name in ("top_p", "temperature") else int
    try:
        return kind(text)
    except ValueError:
        wanted = "a number" if kind is float else "a whole number"
        raise ValueError(f"{PREFIX}{name}={text}: expected {wanted}; {HELP[name]}") from None
