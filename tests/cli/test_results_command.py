"""`lm-eval-healthcare results`: what is printed and written, and the exit codes."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from lm_eval_healthcare.cli.main import main
from result_files import legacy, results, write
from support import child_environment

FIELDS = {
    "model", "task", "metric", "filter", "value", "stderr", "n", "n_total", "complete", "n_shot", "version", "file",
    "date",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    row = {"acc,none": 0.5, "acc_stderr,none": "N/A", "f1,strict,x": 0.25, "mean,none": math.nan}
    write(tmp_path / "runs/a/r.json", results("org/Alpha|x", {"careqa_en": row, "medtext": {"bleu,none": 0.125}}))
    write(tmp_path / "runs/b/r.json", results("org/beta", {"careqa_en": {"acc,none": 0.75}}, n=(5, 10)))
    write(tmp_path / "runs/c/r.json", legacy("org/old", {"careqa_en": {"acc": 0.4}}))
    write(tmp_path / "runs/notes.json", {"a": 1})
    return tmp_path / "runs"


def call(*arguments: object) -> int:
    return main(["results", *map(str, arguments), "--cache", "off"])


def test_json_has_the_fields_that_programs_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "--format", "json") == 0
    done = capsys.readouterr()
    table = json.loads(done.out, parse_constant=pytest.fail)  # no NaN
    assert set(table) >= {"cells", "set_aside", "skipped"}
    assert all(set(cell) >= FIELDS for cell in table["cells"])
    assert all(set(one) >= FIELDS | {"reason"} for one in table["set_aside"])
    first = {key: table["cells"][0][key] for key in FIELDS - {"file"}}
    assert first == {
        "model": "org/Alpha|x", "task": "careqa_en", "metric": "acc", "filter": "none", "value": 0.5, "stderr": None,
        "n": 100, "n_total": 100, "complete": True, "n_shot": 0, "version": 1.0, "date": 1_000_000.0,
    }  # fmt: skip
    assert table["cells"][0]["file"] == str(folder / "a/r.json")
    assert table["skipped"] == [
        {"file": str(folder / "notes.json"), "reason": "no results of the harness: there is no key 'results'",
         "broken": False}
    ]  # fmt: skip
    assert "1 file skipped" in done.err


def test_filters_and_permissions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def cells(*options: str) -> list[tuple[str, str]]:
        assert call(folder, "--format", "json", *options) == 0
        return [(cell["model"], cell["metric"]) for cell in json.loads(capsys.readouterr().out)["cells"]]

    assert cells("--where", "model=*ALPHA*", "metric=acc") == [("org/Alpha|x", "acc")]
    assert cells("--where", "task=med*", "task=none") == [("org/Alpha|x", "bleu")]
    assert cells("--where", "filter=strict*") == [("org/Alpha|x", "f1")]
    assert ("org/beta", "acc") in cells("--allow-partial")
    assert ("org/old", "acc") in cells("--allow-legacy")


def test_csv_and_parquet_hold_the_same_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet as pq

    assert call(folder, "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["metric"], row["filter"], float(row["value"])) for row in rows] == [
        ("acc", "none", 0.5),
        ("f1", "strict,x", 0.25),
        ("bleu", "none", 0.125),
    ]
    assert rows[0]["stderr"] == ""
    assert call(folder, "--format", "parquet", "-o", folder.parent / "out/t.parquet") == 0
    read = pq.read_table(folder.parent / "out/t.parquet").to_pylist()
    first = read[0]
    assert (first["model"], first["value"], first["stderr"], first["n"]) == ("org/Alpha|x", 0.5, None, 100)
    assert len(read) == len(rows)


def test_markdown_escapes_what_would_end_a_cell(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "--format", "markdown", "-o", folder.parent / "t.md") == 0
    lines = (folder.parent / "t.md").read_text(encoding="utf-8").split("\n")
    assert lines[2].startswith("| org/Alpha\\|x | careqa_en | acc | none | 0.5000 |")
    assert capsys.readouterr().out == ""


def test_people_see_values_averages_and_what_was_set_aside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "--allow-partial", "--set-aside") == 0
    done = capsys.readouterr()
    assert "5/10" in done.out
    assert "no value: the mean is NaN" in done.out
    assert "2 values set aside (1 no value, 1 not comparable)" in done.err
    assert call(folder, "--where", "task=nothing") == 0
    assert capsys.readouterr().out == "no values\n"


def test_exit_codes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "--strict") == 0  # another kind of file is not broken
    write(folder / "cut.json", '{"results": {')
    assert call(folder) == 0
    assert call(folder, "--strict") == 1
    assert "cut.json" in capsys.readouterr().err
    assert call(folder / "gone") == 2
    assert call(folder, "--where", "shots=5") == 2
    assert call(folder, "--format", "parquet") == 2
    with pytest.raises(SystemExit):
        call(folder, "--min-coverage", "95")


def test_names_that_no_encoding_has_do_not_stop_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "r.json", json.dumps(results("org/one"))[:-1] + ', "model_name": "a\\ud800\\u2028é"}')
    for form in ("json", "table", "csv", "markdown"):
        assert call(tmp_path, "--format", form) == 0
    assert call(tmp_path, "--format", "parquet", "-o", tmp_path / "x.parquet") == 0
    capsys.readouterr()
    assert call(tmp_path, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["model"] == "a\ud800\u2028é"


def test_it_loads_nothing_heavy(folder: Path) -> None:
    code = (
        "import sys; from lm_eval_healthcare.cli.main import main; main(sys.argv[1:]); "
        "print([m for m in ('torch', 'lm_eval', 'transformers', 'datasets', 'pandas', 'pyarrow', 'scipy') "
        "if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "results", str(folder), "--cache", "off", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env=child_environment(), check=True, timeout=60)
    assert done.stderr.strip().split("\n")[-1] == "[]"


@pytest.mark.parametrize("command", ["results", "correlate", "report"])
def test_a_path_behind_where_is_a_path(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """What argparse would give to the flag before it; and without any path the message says what to give."""
    (tmp_path / "runs").mkdir()
    output = [] if command == "results" else ["-o", str(tmp_path / "out.html")]
    assert main([command, "--where", "task=careqa*", *output]) == 2
    assert f"no PATH was given; give a folder of results, such as: lm-eval-healthcare {command} results" in (
        capsys.readouterr().err
    )
    main([command, *output, "--where", "task=careqa*", str(tmp_path / "runs")])
    assert "no PATH was given" not in capsys.readouterr().err
