"""What a study leaves in a folder: its numbers, a table with the scores of each question, and figures."""

from __future__ import annotations

import csv
import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.whole_file import whole_file

logger = logging.getLogger(__name__)


def write(
    content: Mapping[str, Any], table: Iterable[Sequence[Any]], folder: Path, name: str, figures: str | None
) -> list[Path]:
    """Write everything, each file whole or not at all; figures that cannot be drawn cost a warning.

    Args:
        content: The study.
        table: The heading and the rows; None and NaN are empty cells.
        folder: Where; made if needed.
        name: What the files' names begin with: `<name>.json`, `<name>_prompts.csv`.
        figures: The format of figures, such as `png`; None for no figures.

    Returns:
        The files.

    Raises:
        ResultsError: If the numbers or the table cannot be written.
    """
    numbers, prompts = folder / f"{name}.json", folder / f"{name}_prompts.csv"
    try:
        with whole_file(numbers) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as out:
            json.dump(content, out, indent=2, ensure_ascii=False, allow_nan=False, default=str)
            out.write("\n")
        with (
            whole_file(prompts) as part,
            part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as out,
        ):
            csv.writer(out, lineterminator="\n").writerows([_cell(value) for value in row] for row in table)
    except OSError as error:
        raise ResultsError(
            f"{printable(folder)}: could not be written ({error}); free space, or choose another folder with -o"
        ) from error
    return [numbers, prompts, *(() if figures is None else _draw(content, folder, figures))]


def _draw(content: Mapping[str, Any], folder: Path, figures: str) -> list[Path]:
    from lm_eval_healthcare.report import study_figures

    try:
        return study_figures.draw(content, folder, figures)
    except (UserError, OSError) as error:
        logger.warning("no pictures: %s", error)
        return []


def _cell(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
