"""The command `data` as people use it: in a process of its own, without a hub."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lm_eval_healthcare.sample import rows_path
from support import write_jsonl

Cli = Callable[..., subprocess.CompletedProcess[str]]

OWN_TASK = """
task: quiz
class: !function lm_eval_healthcare.harness.multiple_choice.MultipleChoiceTask
tag: own
dataset_path: {hub}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_target: cop
doc_to_choice: [A, B]
metadata: {{version: 1.0}}
healthcare:
  benchmark: Quiz
  licence: CC0-1.0
  rows: {{test: 3}}
  columns: {{question: str, cop: int 0..1, kind: str}}
"""
ROWS = [{"question": f"Question {n}?", "cop": n % 2, "kind": ["even", "odd"][n % 2]} for n in range(3)]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's task whose hub set is a local folder, read by the real `datasets` library."""
    write_jsonl(tmp_path / "hub" / "test.jsonl", ROWS)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "quiz.yaml").write_text(OWN_TASK.format(hub=tmp_path / "hub"))
    return tmp_path


def test_fetch_verify_and_use(own: Path, cli: Cli) -> None:
    environment = {"HF_HOME": str(own / "home"), "HF_HUB_OFFLINE": "1"}
    include, to = ["--include_path", str(own / "tasks")], str(own / "to")
    done = cli("data", "fetch", "own", "--to", to, *include, env=environment)
    assert done.returncode == 0, done.stderr
    assert "fetched" in done.stdout
    assert f"--metadata data={to}" in done.stdout
    assert (own / "to" / "quiz" / "test.jsonl").read_text() == (own / "hub" / "test.jsonl").read_text()
    shutil.rmtree(own / "hub")  # the machine without internet
    again = cli("data", "fetch", "quiz", "--to", to, *include, env=environment)
    assert (again.returncode, "already there" in again.stdout) == (0, True)
    verified = cli("data", "verify", to, *include)
    assert verified.returncode == 0, verified.stdout
    assert "Everything is as it should be." in verified.stdout
    exported = cli("data", "export", "quiz", "--data", to, "--to", str(own / "prompts"), *include)
    assert exported.returncode == 0, exported.stderr
    assert len((own / "prompts" / "quiz.prompts.jsonl").read_text().splitlines()) == 3
    (own / "to" / "quiz" / "test.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    checked = cli("check", "--tasks", "quiz", "--metadata", f"data={to}", *include)
    assert "quiz/test.jsonl is not what manifest.json says it was" in checked.stdout + checked.stderr
    broken = cli("data", "verify", to, "--format", "json", *include)
    assert broken.returncode == 1
    found = json.loads(broken.stdout)
    assert (found["ok"], found["files"][0]["state"]) == (False, "changed")
    assert found["tasks"][0]["problems"] == ["1 rows are scored, 3 are published"]


def test_fetch_without_a_hub_tells_every_task(tmp_path: Path, cli: Cli) -> None:
    done = cli("data", "fetch", "careqa_en", "--to", str(tmp_path), env={"HF_HUB_OFFLINE": "1"})
    assert done.returncode == 1
    assert "failed: careqa_en: HPAI-BSC/CareQA could not be loaded from the hub" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_prepare_a_table(own: Path, cli: Cli) -> None:
    with (own / "quiz.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [["question", "cop", "kind"], *[list(row.values()) for row in ROWS], ["x", 7, "y"]]
        )
    arguments = ["data", "prepare", "quiz", "--from", str(own / "quiz.csv"), "--to", str(own / "to")]
    include = ["--include_path", str(own / "tasks")]
    refused = cli(*arguments, *include)
    assert refused.returncode == 2
    assert "quiz.csv, line 5: column 'cop': expected int 0..1, got '7'" in refused.stderr
    assert not (own / "to").exists()
    done = cli(*arguments, "--skip-faulty", *include)
    assert done.returncode == 0, done.stderr
    assert "3 rows from 4 original ones (licence of the data: CC0-1.0)" in done.stdout
    assert "left out, 1 rows" in done.stdout
    assert "3 documents to score" in done.stdout
    assert cli("data", "verify", str(own / "to"), *include).returncode == 0
    with (own / "quiz.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["question", "cop", "kind"], *[list(row.values()) for row in ROWS[:2]]])
    replaced = cli(*arguments, *include)
    assert replaced.returncode == 0, replaced.stderr
    assert "it replaces the 3 rows of" in replaced.stdout
    several = cli("data", "prepare", "healthcare_mcqa", "--from", "x.csv", "--to", str(own))
    assert several.returncode == 2
    assert "means several tasks" in several.stderr


def test_describe(own: Path, cli: Cli) -> None:
    done = cli("data", "describe", "careqa_en,careqa_open", "--data", "sample", "--format", "json")
    found = json.loads(done.stdout)
    assert {name: task["rows"] for name, task in found.items()} == {"careqa_en": 12, "careqa_open": 10}
    text = cli("data", "describe", "careqa_en", "--data", str(rows_path()))
    assert "## careqa_en" in text.stdout
    assert "A word is a run of letters" in text.stdout
    write_jsonl(own / "data" / "quiz" / "test.jsonl", ROWS)
    arguments = ["data", "describe", "quiz", "--data", str(own / "data"), "--include_path", str(own / "tasks")]
    kinds = cli(*arguments, "--category", "kind")
    assert "| even | 2 |" in kinds.stdout, kinds.stderr
    assert "there is no column 'nothing'" in cli(*arguments, "--category", "nothing").stderr


def test_describe_goes_on_where_a_task_has_no_rows(tmp_path: Path, cli: Cli) -> None:
    shutil.copytree(rows_path() / "medtext", tmp_path / "medtext")
    done = cli("data", "describe", "careqa_en", "medtext", "--data", str(tmp_path), "--format", "json")
    assert done.returncode == 1
    assert set(json.loads(done.stdout)) == {"medtext"}
    assert "careqa_en: no rows in" in done.stderr


def test_export(tmp_path: Path, cli: Cli) -> None:
    done = cli(
        "data", "export", "medtext", "--data", "sample", "--prompt", "pack", "--to", str(tmp_path), "--limit", "2"
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "medtext.prompts.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert "Record: " in json.loads(lines[0])["prompt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "nothing", "--to", "{}"], "task not found: nothing"),
        (["verify", "{}/none"], "no such folder"),
        (["describe", "medtext", "--data", "{}/none"], "expected 'hub', 'sample' or an existing folder"),
        (["describe", "medtext", "--data", "sample", "--tokenizer", "{}/none"], "--tokenizer"),
        (["describe", "medtext", "--data", "sample", "--metadata", "references"], "write key=value"),
        (
            ["describe", "mts_dialog", "--data", "sample", "--metadata", "subset=nonsense"],
            "subset=nonsense: expected one",
        ),
        (["describe", "mts_dialog", "--data", "sample", "--metadata", "sbset=test1"], "did you mean 'subset'?"),
        (
            ["export", "mts_dialog", "--data", "sample", "--to", "{}", "--metadata", "sbset=test1"],
            "unknown option 'sbset'",
        ),
        (["describe", "medtext", "--data", "sample", "--figures", "/proc/x"], "give a folder that is yours"),
        (["prepare", "medtext", "--from", "{}/none.csv", "--to", "{}"], "no such file"),
        (["export", "medtext", "--data", "sample", "--to", "{}", "--include_path", "{}/none"], "no such folder"),
    ],
)
def test_mistakes_are_told_in_one_message(tmp_path: Path, cli: Cli, arguments: list[str], message: str) -> None:
    done = cli("data", *(argument.format(tmp_path) for argument in arguments))
    assert done.returncode == 2
    assert done.stderr.startswith("lm-eval-healthcare: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_options_from_the_environment(tmp_path: Path, cli: Cli) -> None:
    """The sample has five rows in each of the two official test sets."""
    environment = {"LM_EVAL_HEALTHCARE_SUBSET": "test1", "LM_EVAL_HEALTHCARE_DATA": "sample"}
    described = cli("data", "describe", "mts_dialog", "--format", "json", env=environment)
    assert json.loads(described.stdout)["mts_dialog"]["rows"] == 5, described.stderr
    both = ["--metadata", "subset=official", "data=sample"]
    assert (
        json.loads(cli("data", "describe", "mts_dialog", "--format", "json", *both).stdout)["mts_dialog"]["rows"] == 10
    )
    exported = cli("data", "export", "mts_dialog", "--to", str(tmp_path), env=environment)
    assert exported.returncode == 0, exported.stderr
    assert len((tmp_path / "mts_dialog.prompts.jsonl").read_text("utf-8").splitlines()) == 5
    verified = cli("data", "verify", str(rows_path()), "--tasks", "mts_dialog", env=environment)
    assert "rows are those of subset=test1" in verified.stdout
    for command in (["describe", "mts_dialog"], ["verify", str(rows_path())]):
        misspelt = cli("data", *command, env={"LM_EVAL_HEALTHCARE_SBSET": "test1"})
        assert (misspelt.returncode, "unknown environment variable" in misspelt.stderr) == (2, True)


def test_help(cli: Cli) -> None:
    assert "fetch" in cli("data").stdout
    for command in ("fetch", "prepare", "verify", "export", "describe"):
        assert "example:\n  lm-eval-healthcare data" in cli("data", command, "--help").stdout


def test_a_folder_without_write_permission(tmp_path: Path, cli: Cli) -> None:
    """The system's own refusal, which also stops an administrator: a file in the place of the folder."""
    (tmp_path / "file").write_text("")
    done = cli("data", "fetch", "careqa_en", "--to", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "choose another folder" in done.stderr
