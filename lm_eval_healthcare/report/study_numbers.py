"""What the pictures of a study show: its numbers in order, and places for labels that do not lie on each other.

A study is the content of `consistency.json` or `resilience.json`. Files may have been edited, so nothing is taken for
granted: what is no number counts as none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_healthcare.analysis.resilience import clusters

CONSISTENCY, RESILIENCE = "self-consistency", "resilience"
STUDIES = (CONSISTENCY, RESILIENCE)
NEGLIGIBLE = 1e-20
"""A scaled variance up to this is that of equal scores, but for rounding."""
_LONGEST = 44


@dataclass(frozen=True)
class Distribution:
    """The values of one metric, one for each question that has one.

    Attributes:
        name: The metric.
        values: Finite values, sorted.
        n_prompts: Questions looked at.
        n_undefined: Answers, or questions of a model, without a value; None if the study does not say.
        mean: Mean over questions; NaN if there is none.
        spread: Variance over questions; NaN if there is none.
        cluster: Number of the cluster, from 1; 0 for none.
    """

    name: str
    values: tuple[float, ...]
    n_prompts: int
    n_undefined: int | None
    mean: float
    spread: float
    cluster: int = 0

    @property
    def zeros(self) -> int:
        """Values that are 0, rounding apart, which a logarithmic axis has no place for."""
        return sum(value <= NEGLIGIBLE for value in self.values)

    @property
    def positive(self) -> tuple[float, ...]:
        """Values above 0."""
        return tuple(value for value in self.values if value > NEGLIGIBLE)

    def quantile(self, share: float) -> float:
        """Return a quantile, linear between values; NaN if there are none."""
        if not self.values:
            return math.nan
        place = share * (len(self.values) - 1)
        low = math.floor(place)
        high = min(low + 1, len(self.values) - 1)
        return self.values[low] + (place - low) * (self.values[high] - self.values[low])

    @property
    def count(self) -> str:
        """How many questions have a value, of how many, and how many values are undefined, in words."""
        of = f" of {self.n_prompts:,}" if self.n_prompts != len(self.values) else ""
        undefined = f", {self.n_undefined:,} undefined" if self.n_undefined else ""
        return f"n = {len(self.values):,}{of}{undefined}"


@dataclass(frozen=True)
class Noise:
    """Where the error of one mean comes from.

    Attributes:
        name: Metric, model and task.
        prediction: Part of the squared standard error that asking again would change; never below 0.
        data: Part that other questions would change; never below 0.
        se: The standard error.
    """

    name: str
    prediction: float
    data: float
    se: float

    @property
    def share(self) -> float:
        """Share of the prediction noise, from 0 to 1; NaN if there is no noise."""
        whole = self.prediction + self.data
        return self.prediction / whole if whole > 0 else math.nan


def number(value: Any) -> float:
    """Return a finite number as a float, anything else as NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        found = float(value)
    except OverflowError:
        return math.nan
    return found if math.isfinite(found) else math.nan


def whole(value: Any) -> int | None:
    """Return a number as an int, anything else as None."""
    found = number(value)
    return None if math.isnan(found) else int(found)


def part(content: Any, key: str) -> Mapping[str, Any]:
    """Return an object inside an object; an empty one if it is missing or of another kind."""
    found = content.get(key) if isinstance(content, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def objects(content: Any, key: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list inside an object."""
    found = content.get(key) if isinstance(content, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def distributions(study: Mapping[str, Any]) -> list[Distribution]:
    """Return the scaled variances of each metric, the steadiest metric first, those without a mean last.

    Args:
        study: The content of a study's file.
    """
    mine = study.get("study") == RESILIENCE
    keys = ("variances", "mean_variance", "variance_of_variance")
    values, mean, spread = keys if mine else (f"scaled_{key}" for key in keys)
    found = _rows(study, values, mean, spread)
    groups = _clusters(found)
    return [
        Distribution(one.name, one.values, one.n_prompts, one.n_undefined if mine else None, one.mean, one.spread,
                     groups.get(one.name, 0))
        for one in found
    ]  # fmt: skip


def coefficients(study: Mapping[str, Any]) -> list[Distribution]:
    """Return the coefficients of variation of each metric; those of a study that has none are empty.

    Args:
        study: The content of a study's file.
    """
    return _rows(study, "cvs", "mean_cv", "") if study.get("study") == CONSISTENCY else []


def _rows(study: Mapping[str, Any], values: str, mean: str, spread: str) -> list[Distribution]:
    found = []
    for name, content in part(study, "metrics").items():
        listed = content.get(values) if isinstance(content, Mapping) else None
        numbers = sorted(x for one in (listed if isinstance(listed, list) else []) if not math.isnan(x := number(one)))
        content = content if isinstance(content, Mapping) else {}
        found.append(
            Distribution(
                str(name), tuple(numbers), whole(content.get("n_prompts")) or 0, whole(content.get("n_undefined")),
                number(content.get(mean)), number(content.get(spread)),
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: (math.isnan(one.mean), one.mean if one.mean == one.mean else 0.0, one.name))


def _clusters(found: Sequence[Distribution]) -> dict[str, int]:
    groups = clusters({one.name: one.mean for one in found}, {one.name: one.spread for one in found})
    return {name: place for place, group in enumerate(groups, 1) for name in group}


def noises(study: Mapping[str, Any]) -> list[Noise]:
    """Return the noise of every mean that has one, by metric and then by model.

    Args:
        study: The content of a study's file.
    """
    found = []
    runs = objects(study, "runs")
    several = {key: len({str(run.get(key)) for run in runs}) > 1 for key in ("model", "task")}
    for run in runs:
        for metric, content in part(run, "metrics").items():
            noise = part(content, "noise")
            parts = [number(noise.get(key)) for key in ("se_prediction", "se_data", "se")]
            if any(map(math.isnan, parts)):
                continue
            about = [_end(str(run.get(key))) for key in ("model", "task") if several[key]]
            name = ", ".join([str(metric), *(shortened(text, _LONGEST // 2) for text in about)])
            found.append((str(metric), Noise(name, max(0.0, parts[0]) ** 2, max(0.0, parts[1]) ** 2, parts[2])))
    return [noise for _, noise in sorted(found, key=lambda one: (one[0], one[1].name))]


def _end(name: str) -> str:
    """Return the last part of a model's name, which may be a path."""
    return name.rstrip("/").rsplit("/", 1)[-1] or name


def shortened(text: str, length: int = _LONGEST) -> str:
    """Return a text of one line and at most so many characters, its middle left out where it is longer."""
    line = "".join(character if character.isprintable() else " " for character in text)
    if len(line) <= length:
        return line
    head = (length - 1) // 2
    return f"{line[:head]}\u2026{line[len(line) - (length - 1 - head) :]}"


def decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten between which positive values lie, at least one apart.

    Args:
        values: Positive numbers; none gives -4 and -1.
    """
    if not values:
        return -4, -1
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return (low, high) if high > low else (low - 1, low + 1)


Box = tuple[float, float, float, float]
"""Left, low, right and high end."""

_PLACES = [
    (side, up)
    for up in (0.0, 0.9, -0.9, 1.8, -1.8, 2.7, -2.7, 3.6, -3.6, 4.5, -4.5, 5.4, -5.4, 6.3, -6.3)
    for side in (1, -1)
]


def place_labels(
    points: Sequence[tuple[float, float]], widths: Sequence[float], height: float, inside: Box, gap: float = 6.0
) -> list[Box]:
    """Return a box for the label of each point that lies on no point and on no other label, as far as there is room.

    Args:
        points: Places of the points; y grows upwards.
        widths: Width of each label, in the same unit.
        height: Height of every label.
        inside: Where labels may lie.
        gap: Distance from the point.
    """
    dots: list[Box] = [(x - gap / 2, y - gap / 2, x + gap / 2, y + gap / 2) for x, y in points]
    placed: list[Box] = []

    def cost(place: tuple[float, Box]) -> float:
        """A label on another is worse than one that touches a point, or than one that is far away."""
        up, box = place
        on = 10 * sum(_overlap(box, other) for other in placed) + sum(_overlap(box, dot) for dot in dots)
        return on + 0.4 * height * up

    for (x, y), width in zip(points, widths, strict=True):
        boxes = [(abs(up), _box(x, y, width, height, side, up, gap)) for side, up in _PLACES]
        within = [(up, box) for up, box in boxes if _contains(inside, box)]
        placed.append(min(within or [(up, _moved_in(box, inside)) for up, box in boxes], key=cost)[1])
    return placed


def _box(x: float, y: float, width: float, height: float, side: int, up: float, gap: float) -> Box:
    left = x + gap if side > 0 else x - gap - width
    low = y + up * height - height / 2
    return left, low, left + width, low + height


def _contains(outer: Box, inner: Box) -> bool:
    return (
        outer[0] <= inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2] and inner[3] <= outer[3]
    )  # fmt: skip


def _moved_in(box: Box, inside: Box) -> Box:
    right = max(0.0, inside[0] - box[0]) - max(0.0, box[2] - inside[2])
    up = max(0.0, inside[1] - box[1]) - max(0.0, box[3] - inside[3])
    return box[0] + right, box[1] + up, box[2] + right, box[3] + up


def _overlap(one: Box, other: Box) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, wide) * max(0.0, high)
