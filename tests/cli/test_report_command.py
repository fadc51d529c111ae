"""`lm-eval-healthcare report`: one file from folders of results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from support import write_jsonl

STAMP = "2026-01-01T00-00-00.000000"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


def write_run(folder: Path, model: str, values: dict[str, float], n: int = 3, total: int = 3, **config: Any) -> None:
    """A results file of one metric `acc`, with sample files beside it."""
    own = folder / model.replace("/", "__")
    content = {
        "results": {
            t: {"alias": t, "acc,none": v, "acc_stderr,none": 0.01, "sample_len": n} for t, v in values.items()
        },
        "configs": {
            t: {
                "task": t,
                "doc_to_text": "{{q}}",
                "output_type": "generate_until",
                "metadata": {"version": 1},
                **config,
            }
            for t in values
        },
        "versions": dict.fromkeys(values, 1),
        "n-shot": dict.fromkeys(values, 0),
        "higher_is_better": {t: {"acc": True} for t in values},
        "n-samples": {t: {"original": total, "effective": n} for t in values},
        "config": {"model": "hf", "model_args": {"pretrained": model}, "limit": None},
        "date": 1.7e9,
        "model_name": model,
        "lm_eval_version": "0.4.13",
        "chat_template_sha": None,
    }
    for task in values:
        rows = [
            {
                "doc_id": i, "doc": {"q": f"what is {i} in {task}"}, "target": "ref", "doc_hash": f"{i}{task}",
                "arguments": {"gen_args_0": {"arg_0": "p", "arg_1": {"until": []}}}, "resps": [["x"]],
                "filtered_resps": [f"{model} answers </script> {i}"], "filter": "none", "acc": 1.0,
            }
            for i in range(n)
        ]  # fmt: skip
        write_jsonl(own / f"samples_{task}_{STAMP}.jsonl", rows)
    (own / f"results_{STAMP}.json").write_text(json.dumps(content), encoding="utf-8")


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found
    return json.loads(found[1])


def test_one_file_from_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, model in enumerate(("org/a", "org/b", "org/c")):
        write_run(tmp_path / "in", model, {"t": 0.1 + number / 10, "u": 0.9 - number / 10})
    write_run(tmp_path / "in", "org/d", {"t": 0.7}, n=2, total=4)
    (tmp_path / "in" / "cut.json").write_text('{"results": {')
    out = tmp_path / "new" / "report.html"
    assert main(["report", str(tmp_path / "in"), "-o", str(out), "--date", "yesterday", "--title", "My <ward>"]) == 0
    assert "3 models, 6 values, 1 set aside, 1 files skipped, 6 documents with answers" in capsys.readouterr().out
    text = out.read_text(encoding="utf-8")
    assert "<title>My &lt;ward&gt;</title>" in text
    assert "yesterday" in text
    assert "cut.json" in text
    assert "0.4.13 (6 values)" in text
    # Spearman over (0.1, 0.2, 0.3) and (0.9, 0.8, 0.7): the orders are opposite.
    assert "r = −1.000; n = 3 models" in text
    data = data_of(out)
    assert data["names"] == {"org/a": "a", "org/b": "b", "org/c": "c"}
    assert [len(doc["a"]) for doc in data["docs"]] == [3] * 6
    assert data["docs"][0]["a"][1]["x"] == "org/b answers </script> 0"
    again = tmp_path / "again.html"
    main(["report", str(tmp_path / "in"), "-o", str(again), "--date", "yesterday", "--title", "My <ward>"])
    assert data_of(again) == data


def test_what_is_embedded_can_be_limited(tmp_path: Path) -> None:
    write_run(tmp_path / "in", "a", {"t": 0.5})
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "in"), "-o", str(out), "--max-samples", "2", "--max-text", "5"]) == 0
    data = data_of(out)
    assert [doc["q"] for doc in data["docs"]] == [["what ", 14], ["what ", 14]]
    assert main(["report", str(tmp_path / "in"), "-o", str(out), "--no-samples"]) == 0
    assert "answers &lt;/script" not in out.read_text()
    assert data_of(out) == {"names": {}}


@pytest.mark.parametrize(
    ("task", "config"), [("mimic_repsum", {}), ("mine", {"dataset_path": "dmacres/mimiciii-hospitalcourse-meta"})]
)
def test_credentialed_texts_are_never_in_it(tmp_path: Path, task: str, config: dict[str, Any]) -> None:
    write_run(tmp_path / "in", "a", {task: 0.5, "t": 0.5})
    write_run(tmp_path / "in", "b", {task: 0.5}, **config)
    write_run(tmp_path / "in", "a", {task: 0.5}, **config)
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "in"), "-o", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert f"in {task}" not in text
    assert data_of(out)["hidden"] == [task]


def test_nothing_to_show_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "in", "a", {"t": 0.5}, n=1, total=9)
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "in"), "-o", str(out)]) == 1
    assert "No value was chosen" in out.read_text(encoding="utf-8")
    assert "no value was chosen" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "in"), "-o", str(out), "--allow-partial"]) == 0
    assert "1 chosen values are from runs over a part" in out.read_text(encoding="utf-8")


def test_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "none"), "-o", str(tmp_path / "r.html")]) == 2
    assert "no such file or folder" in capsys.readouterr().err
    write_run(tmp_path / "in", "a", {"t": 0.5})
    assert main(["report", str(tmp_path / "in"), "-o", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err
    out = tmp_path / "r.html"
    assert main(["report", str(tmp_path / "in"), "-o", str(out), "--metric", "blue"]) == 0
    assert "--metric blue: no chosen value has this metric" in out.read_text(encoding="utf-8")


def test_the_date_can_be_fixed_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "in", "a", {"t": 0.5})
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    main(["report", str(tmp_path / "in"), "-o", str(tmp_path / "r.html")])
    assert "1970-01-02 00:00 UTC" in (tmp_path / "r.html").read_text(encoding="utf-8")
