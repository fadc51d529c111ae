"""What a study of self-consistency leaves in a folder: its numbers, a line a question, and figures."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.whole_file import whole_file

NUMBERS, PROMPTS = "consistency.json", "consistency_prompts.csv"
COLUMNS = (
    "model", "task", "filter", "doc_id", "document", "metric", "answers", "distinct_answers", "scores", "mean",
    "variance", "scaled_variance", "cv", "reason",
)  # fmt: skip


def write(content: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], folder: Path, ending: str) -> list[Path]:
    """Write everything, each file whole or not at all.

    Args:
        content: The study.
        rows: One a model, task, question and metric.
        folder: Where; made if needed.
        ending: The format of figures, such as `png`.

    Returns:
        The files.

    Raises:
        ResultsError: If one cannot be written.
    """
    from lm_eval_healthcare.report import study_figures

    try:
        with whole_file(folder / NUMBERS) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as out:
            json.dump(content, out, indent=2, ensure_ascii=False, allow_nan=False, default=str)
            out.write("\n")
        with (
            whole_file(folder / PROMPTS) as part,
            part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as out,
        ):
            lines = csv.writer(out, lineterminator="\n")
            lines.writerow(COLUMNS)
            lines.writerows([_cell(row.get(column)) for column in COLUMNS] for row in rows)
        return [folder / NUMBERS, folder / PROMPTS, *study_figures.draw(content, folder, ending)]
    except OSError as error:
        raise ResultsError(
            f"{printable(folder)}: could not be written ({error}); free space, or choose another folder with -o"
        ) from error


def _cell(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
