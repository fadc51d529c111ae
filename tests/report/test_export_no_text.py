"""Exports hold no text of documents, whatever a cell carries along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.report import export_every_eval, export_hf, export_open_medical, export_tables
from lm_eval_healthcare.report.export_tasks import OPEN_MEDICAL
from lm_eval_healthcare.report.exports import Exported, admitted
from lm_eval_healthcare.results.cell import Cell, Rules, SetAside, Table

TEXT = "Mrs Doe was admitted with chest pain"
EVERYTHING = Rules(allow_partial=True, allow_legacy=True, allow_unusable=True, min_coverage=0.0)


def cell(task: str, metric: str = "acc", **changes: Any) -> Cell:
    """A cell that carries a patient's text in every place that is not a name or a number."""
    carried = {"gen_kwargs": f'{{"until": ["{TEXT}"], "temperature": "{TEXT}"}}', "system": TEXT, "question": TEXT}
    return Cell(
        "org/model", task, metric, "none", 0.5, n=100, n_total=100, n_shot=0, unusable=f"judge said: {TEXT}",
        file=Path(f"/home/{TEXT}/results.json"), extra=carried, **changes,
    )  # fmt: skip


CELLS = [cell(task) for task in OPEN_MEDICAL] + [
    cell("mimic_repsum", "rougeL"), cell("mimic_hospital_course", "bleu"), cell("my_own_task"),
]  # fmt: skip


def _exports(cells: list[Cell]) -> dict[str, Exported]:
    return {
        "hub": export_hf.export(cells, export_hf.HubOptions(any_metric=True)),
        "board": export_open_medical.export(cells, export_open_medical.OpenMedicalOptions()),
        "records": export_every_eval.export(cells, export_every_eval.RecordOptions(0.0)),
        "latex": export_tables.latex(cells, export_tables.Look(stderr=True, n=True), "t.tex"),
        "markdown": export_tables.markdown(cells, export_tables.Look(stderr=True, n=True), "t.md"),
    }


@pytest.mark.parametrize("name", ["hub", "board", "records", "latex", "markdown"])
def test_no_format_carries_a_text(name: str) -> None:
    cells, refused = admitted(Table(cells=CELLS), EVERYTHING)
    assert (cells, refused) == (CELLS, [])
    found = _exports(cells)[name]
    assert found.documents
    for document in found.documents:
        assert "0.5" in document.text
        assert "Doe" not in document.text
        assert "Doe" not in str(document.path)
    assert "Doe" not in "".join([one.line() for one in found.refused] + found.notes + found.left_out)


def test_scores_of_credentialed_tasks_are_numbers_with_the_mark_of_closed_data() -> None:
    cells = [cell("mimic_repsum", "rougeL")]
    text = _exports([*CELLS[:9], *cells])["records"].documents[0].text
    assert '"access": "credentialed"' in text
    assert export_hf.export(cells, export_hf.HubOptions(any_metric=True)).documents == []


def test_refusals_carry_no_text_either() -> None:
    table = Table(cells=CELLS[:1], set_aside=[SetAside(cell("mimic_repsum", "rougeL"), f"unusable: {TEXT}")])
    lines = [one.line() for one in admitted(table, Rules())[1]]
    assert len(lines) == 2
    assert "Doe" not in "".join(lines)
