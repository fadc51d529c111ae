"""A metric that weighs words by each run's own answers: what is said of it when several runs are scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from lm_eval_healthcare.results.discovery import RunFiles
from lm_eval_healthcare.scoring.comparability import comparability_warning, weighed_differently
from lm_eval_healthcare.scoring.saved_samples import SavedTask
from lm_eval_healthcare.scoring.scored_results import TaskResult
from support import write_jsonl

STAMP = "2026-03-01T10-00-00.000001"


def result(task: str, signature: str, metric: str = "mover_score", filter_name: str = "none", coverage: float = 1.0):  # type: ignore[no-untyped-def]
    return TaskResult(
        task=SavedTask(RunFiles(Path(), STAMP), task, Path(), [metric], {}), documents={filter_name: 2},
        summary={f"{metric}_coverage,{filter_name}": coverage}, config={}, higher_is_better={}, counts={},
        signatures={filter_name: {metric: signature}}, errors={}, seconds=0.0,
    )  # fmt: skip


def mover(idf: str, layer: int = 5) -> str:
    return f"mover_score|model:m@1|layer:{layer}|idf:{idf}|idf0:equal"


@pytest.mark.parametrize(
    ("results", "tasks"),
    [
        ([result("t", mover("corpus-aa")), result("t", mover("corpus-bb"))], ["t"]),
        ([result("t", mover("corpus-aa")), result("t", mover("corpus-aa"))], []),  # the same answers
        ([result("t", mover("corpus-aa")), result("t", mover("corpus-bb", layer=4))], []),  # another difference too
        ([result("t", mover("uniform")), result("t", mover("uniform"))], []),
        ([result("t", mover("uniform")), result("t", mover("corpus-bb"))], []),  # told by the signatures
        ([result("t", mover("corpus-aa")), result("u", mover("corpus-bb"))], []),  # two tasks
        ([result("t", mover("corpus-aa")), result("t", mover("corpus-bb"), filter_name="k")], []),
        ([result("t", mover("corpus-aa")), result("t", mover("corpus-bb"), coverage=0.0)], []),  # no score to compare
        ([result("t", "bleu|x:corpus-aa", "bleu"), result("t", "bleu|x:corpus-bb", "bleu")], []),
        (
            [result(task, mover(f"corpus-{idf}")) for idf in ("aa", "bb", "cc") for task in ("t", "u")],
            ["t", "u"],
        ),
    ],
)
def test_which_tasks_are_weighed_differently(results: list[TaskResult], tasks: list[str]) -> None:
    assert weighed_differently(results) == ({"mover_score": tasks} if tasks else {})
    warning = comparability_warning(results)
    assert (warning is None) == (not tasks)
    if warning is not None:
        assert f"not strictly comparable on {', '.join(tasks)}; --mover-score-idf uniform removes this" in warning


def test_one_warning_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tiny_encoders import tiny_bert

    for model, answers in {"a": ["mild fever", "dry cough"], "b": ["no pain", "blood pressure is high"]}.items():
        for task in ("t", "u"):
            rows: list[dict[str, Any]] = [
                {"doc_id": n, "doc": {"q": n}, "target": "fever is mild", "resps": [[text]], "filtered_resps": [text],
                 "arguments": {"gen_args_0": {"arg_0": "q", "arg_1": {"until": []}}}, "filter": "none"}
                for n, text in enumerate(answers)
            ]  # fmt: skip
            write_jsonl(tmp_path / "runs" / model / f"samples_{task}_{STAMP}.jsonl", rows)
        content = {"results": {}, "model_name": f"org/{model}"}
        (tmp_path / "runs" / model / f"results_{STAMP}.json").write_text(json.dumps(content))
    command = ["score", str(tmp_path / "runs"), "--metrics", "mover_score", "--mover-score-model",
               str(tiny_bert(tmp_path / "m")), "--score-cache", "off", "-o", str(tmp_path / "out")]  # fmt: skip
    assert main(command) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "comparable" in line]
    assert line.startswith("WARNING: mover_score weighs words by how rare they are in each run's own answers, so ")
    assert line.endswith("on t, u; --mover-score-idf uniform removes this")
    assert main([*command, "--mover-score-idf", "uniform"]) == 0
    assert "comparable" not in capsys.readouterr().err
    assert main([*command, "--where", "model=*a"]) == 0
    assert "comparable" not in capsys.readouterr().err
