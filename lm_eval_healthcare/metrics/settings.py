"""Values of metric options: typed from Python, as text from a command line, checked the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COMPUTE_OPTIONS = ("metrics_device", "metrics_batch_tokens", "metrics_dtype", "metrics_long")
DTYPES = ("float32", "bfloat16")
LONG = ("truncate", "windows")


def choice(options: Mapping[str, Any], name: str, allowed: Sequence[str]) -> str:
    """Return the value of an option that is one of a few words; the first is the default.

    Raises:
        ValueError: If it is another.
    """
    value = options.get(name)
    if value is None:
        return allowed[0]
    if isinstance(value, bool):  # YAML and JSON read `yes` and `no` as booleans
        value = "yes" if value else "no"
    if value not in allowed:
        raise ValueError(f"{name}={value}: expected one of {', '.join(allowed)}")
    return str(value)


def whole_number(options: Mapping[str, Any], name: str, minimum: int = 1) -> int | None:
    """Return the value of an option that is a whole number, or None if it is not given.

    Raises:
        ValueError: If it is not a whole number of at least `minimum`.
    """
    value = options.get(name)
    if value is None:
        return None
    try:
        number = int(str(value))
    except ValueError:
        number = minimum - 1
    if number < minimum or isinstance(value, bool):
        raise ValueError(f"{name}={value}: expected a whole number of at least {minimum}")
    return number


def text(options: Mapping[str, Any], name: str) -> str | None:
    """Return the value of an option that is a text such as a model, or None if it is not given.

    Raises:
        ValueError: If it is blank.
    """
    value = options.get(name)
    if value is None:
        return None
    if not str(value).strip():
        raise ValueError(f"{name}= is empty; give a value, or leave it out for the default")
    return str(value)


@dataclass(frozen=True)
class Compute:
    """How neural metrics are computed.

    Attributes:
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        batch_tokens: Tokens in a batch, padding included; None: as the device likes it.
        dtype: Type of the model's numbers. It changes scores, so it is part of signatures.
        long: What is done with texts longer than the model takes. It changes scores too.
    """

    device: str = "auto"
    batch_tokens: int | None = None
    dtype: str = "float32"
    long: str = "truncate"

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Compute:
        """Read the options `metrics_device`, `metrics_batch_tokens`, `metrics_dtype` and `metrics_long`.

        Raises:
            ValueError: If a value cannot be used.
        """
        device = text(options, "metrics_device") or "auto"
        kind, _, index = device.partition(":")
        if kind not in ("auto", "cpu", "cuda") or (":" in device and not (kind == "cuda" and index.isdecimal())):
            hint = "; `later` is for runs, which `lm-eval-healthcare score` completes" if kind == "later" else ""
            raise ValueError(f"metrics_device={device}: expected auto, cpu, cuda or cuda:N{hint}")
        return cls(
            device=device,
            batch_tokens=whole_number(options, "metrics_batch_tokens"),
            dtype=choice(options, "metrics_dtype", DTYPES),
            long=choice(options, "metrics_long", LONG),
        )

    def signature_fields(self) -> dict[str, str]:
        """Return the fields of a signature that say what of this changes scores."""
        return {"dtype": self.dtype, "long": self.long}
