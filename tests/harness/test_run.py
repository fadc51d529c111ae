"""`lm-eval-healthcare run` takes what `lm_eval run` takes, finds the pack, and tells every problem before a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import metrics, task_manager, tasks_path
from lm_eval_healthcare.harness.command_line import arguments_of_command, take_out
from lm_eval_healthcare.harness.manager import needs_harness_index
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.sample import rows_path
from support import results_of, samples_of, write_jsonl

USER_TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"]}}
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""


def user_folder(path: Path, name: str) -> Path:
    file = write_jsonl(path / "rows.jsonl", [{"question": "q", "answer": "lol"}, {"question": "r", "answer": "b"}])
    (path / f"{name}.yaml").write_text(USER_TASK.format(name=name, file=file))
    return path


def test_the_interface(tmp_path: Path, cli: Callable[..., Any]) -> None:
    done = cli(
        "run", "--model", "dummy", "--tasks", "careqa_open,medtext", "--metadata", "data=sample", "metrics=ngram",
        "--output_path", str(tmp_path), "--log_samples",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = results_of(tmp_path)
    for task in ("careqa_open", "medtext"):
        row = results["results"][task]
        for name in ("bleu", "rouge1", "rouge2", "rougeL", "sacrebleu"):
            assert isinstance(row[f"{name},none"], float)
            assert row[f"{name}_coverage,none"] == 1.0
            assert all(isinstance(sample[name], float) for sample in samples_of(tmp_path, task))
    assert "|careqa_open|" in done.stdout
    assert "indexing the harness's own tasks" not in done.stderr


def test_blanks_between_names_and_samples_in_any_order(tmp_path: Path, cli: Callable[..., Any]) -> None:
    done = cli(
        "run", "--model", "dummy", "--tasks", "careqa_open, medtext", "--metadata", "data=sample", "metrics=bleu",
        "--samples", '{"careqa_open": [5, 0, 2, 5], "medtext": [1]}', "--output_path", str(tmp_path), "--log_samples",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (rows_path() / "careqa_open" / "test.jsonl").open(encoding="utf-8")]
    samples = samples_of(tmp_path, "careqa_open")
    assert [sample["doc_id"] for sample in samples] == [0, 2, 5]
    assert [sample["doc"]["question"] for sample in samples] == [rows[i]["question"] for i in (0, 2, 5)]


def test_a_misspelt_environment_variable(cli: Callable[..., Any]) -> None:
    done = cli("run", "--model", "dummy", "--tasks", "careqa_en", env={"LM_EVAL_HEALTHCARE_METRIC": "bleu"})
    assert done.returncode == 2
    assert "unknown environment variable LM_EVAL_HEALTHCARE_METRIC" in done.stderr


def include_of(pack_file: str, extra: str) -> str:
    return f"include: {tasks_path() / pack_file}\ntask: mine\n{extra}"


def test_a_users_wording_wins_and_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(include_of("careqa/careqa_open.yaml", 'description: "MINE: "\n'))
    for prompt in ("harness", "pack"):
        metadata = {"data": "sample", "prompt": prompt}
        manager = task_manager(include_path=tmp_path, metadata=metadata, include_defaults=False)
        task = manager.load(["mine"])["tasks"]["mine"]
        assert task.wording == "user"
        assert task.fewshot_context(task.eval_docs[0], 0).startswith("MINE: ")
        assert len(task.eval_docs) == 10, "rows of the included task serve the renamed one"


@pytest.mark.parametrize("extra", ["metric_list: [{metric: exact_match}]\n", "process_results: x\n"])
def test_what_a_users_yaml_cannot_set_is_told(tmp_path: Path, extra: str) -> None:
    (tmp_path / "mine.yaml").write_text(include_of("careqa/careqa_open.yaml", extra))
    manager = task_manager(include_path=tmp_path, metadata={"data": "sample"}, include_defaults=False)
    with pytest.raises(OptionError, match="which this kind of task decides itself"):
        manager.load(["mine"])


def test_a_users_task_that_replaces_one_of_the_packs_is_told(tmp_path: Path, cli: Callable[..., Any]) -> None:
    """Case b25."""
    user_folder(tmp_path / "1", "careqa_en")
    done = cli("run", "--model", "dummy", "--tasks", "careqa_en", "--include_path", str(tmp_path / "1"), "--limit", "1")
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if "overrides existing task" in line]
    assert len(warnings) >= 1
    assert all("careqa_en" in line for line in warnings)


@pytest.mark.long
def test_several_include_paths_and_the_harness_index(tmp_path: Path, cli: Callable[..., Any]) -> None:
    first, second = user_folder(tmp_path / "1", "my_first"), user_folder(tmp_path / "2", "my_second")
    done = cli(
        "run", "--model", "dummy", "--tasks", "careqa_open,my_first,my_second", "--include_path", str(first),
        f"--include_path={second}", "--metadata", "data=sample", "metrics=bleu", "--output_path", str(tmp_path / "out"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(results_of(tmp_path / "out")["results"]) == {"careqa_open", "my_first", "my_second"}
    assert results_of(tmp_path / "out")["results"]["my_first"]["exact_match,none"] == 0.5
    assert "overrides existing task" not in done.stderr


@pytest.mark.long
def test_a_config_file(tmp_path: Path, cli: Callable[..., Any]) -> None:
    user = user_folder(tmp_path / "1", "my_first")
    config = tmp_path / "run.yaml"
    config.write_text(
        f"model: dummy\ntasks: [careqa_open, my_first]\ninclude_path: {user}\n"
        f"metadata: {{data: sample, metrics: bleu}}\noutput_path: {tmp_path / 'out'}\n"
    )
    done = cli("run", "--config", str(config))
    assert done.returncode == 0, done.stderr
    assert set(results_of(tmp_path / "out")["results"]) == {"careqa_open", "my_first"}


SAMPLE = ["--tasks", "careqa_open", "--metadata", "data=sample"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tasks", "careqa_opne"], "tasks not found: careqa_opne. Did you mean careqa_open"),
        (["--tasks", "careqa_open", "--metadata", "metrics=blue"], "metrics=blue"),
        (["--tasks", "careqa_open", "--metadata", "metric=bleu"], "did you mean 'metrics'?"),
        (["--tasks", "careqa_en", "--metadata", "data=sample", "metrics=blue"], "metrics=blue"),
        (["--tasks", "careqa_open", "--metadata", "bleu"], "--metadata"),
        (["--tasks", "careqa_open", "--metadata", "data=/no/such/folder"], "expected 'hub', 'sample' or an existing"),
        (["--tasks", "careqa_open", "--metadata", "data=."], "careqa_open: no rows in"),
        (["--tasks", "careqa_open", "--metadata", "prompt=x"], "prompt=x: expected one of harness, pack"),
        (["--tasks", "careqa_open", "--metadata", "data=sample", "--num_fewshot", "3"], "num_fewshot=3"),
        (["--tasks", "careqa_open", "--include_path", "/no/such/folder"], "no such folder"),
        (["--tasks", "careqa_open", "--metadata", "data=sample", "--log_samples"], "--output_path"),
        (["--tasks", "careqa_open", "--metadata", "data="], "data= is empty"),
        (["--tasks", "careqa_open", "--metadata", "data=~nobody_at_all/x"], "expected 'hub', 'sample' or an existing"),
        (["--tasks", "careqa_open", "--metadata", "data=sample", "--limit", "0"], "--limit 0"),
        (
            ["--tasks", "careqa_open", "--metadata", "data=sample", "--samples", '{"careqa_open": [10]}'],
            "rows are 0 to 9",
        ),
        (
            ["--tasks", "careqa_open", "--metadata", "data=sample", "--samples", '{"medtext": [1]}'],
            "'medtext', which is not",
        ),
        (["--tasks", "careqa_open", "--metadata", "data=sample", "--output_path", "/proc/x"], "cannot write there"),
        ([], "no --tasks given"),
    ],
)
def test_problems_are_told_before_the_model_is_looked_for(
    arguments: list[str], told: str, cli: Callable[..., Any], tmp_path: Path
) -> None:
    done = cli("run", "--model", "no_such_model", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "no_such_model" not in done.stderr.replace("'no_such_model'", "")


def test_a_misspelt_option_in_a_config_file(tmp_path: Path, cli: Callable[..., Any]) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("model: dummy\ntasks: [careqa_en]\nmetadata: {data: sample, metrik: bleu}\n")
    done = cli("run", "--config", str(config))
    assert done.returncode == 2
    assert "unknown option 'metrik'" in done.stderr


def test_model_arguments_are_not_options(cli: Callable[..., Any], tmp_path: Path) -> None:
    done = cli(
        "run", "--model", "dummy", "--model_args", "pretrained=a/b,revision=main,dtype=float32", "--tasks", "careqa_en",
        "--metadata", "data=sample", "answers=off", "--output_path", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "unknown option" not in done.stderr
    assert not (tmp_path / "answers").exists()


def test_help_shows_the_harness_options_and_ours(cli: Callable[..., Any]) -> None:
    for arguments in (["run", "--help"], ["run"]):
        done = cli(*arguments)
        assert done.returncode == 0
        assert "metrics=default|ngram|all" in done.stdout
        assert "--apply_chat_template" in done.stdout


def test_include_paths_are_taken_out() -> None:
    assert take_out(["--tasks", "a", "--include_path", "x", "--include_path=y:z", "-w"], "--include_path") == (
        ["x", "y:z"], ["--tasks", "a", "-w"],
    )  # fmt: skip
    assert take_out(["--metadata", "a=1", "b=2", "-w", "--metadata", "c=3"], "--metadata", several=True) == (
        ["a=1", "b=2", "c=3"], ["-w"],
    )  # fmt: skip
    with pytest.raises(OptionError, match="--include_path needs a value"):
        take_out(["--include_path", "--tasks"], "--include_path")


def test_what_the_plain_command_was_given(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("output_path: from/config\ntasks: [a, b]\n")
    found = arguments_of_command(["/bin/lm_eval", "run", "--tasks", "x,y", "z", "-o", "out", "--model", "hf", "-w"])
    assert found == {"tasks": ["x", "y", "z"], "output_path": "out", "model": "hf"}
    assert arguments_of_command(["lm-eval", "--output_path=out", "--unknown", "1"]) == {"output_path": "out"}
    assert arguments_of_command(["lm_eval", "--config", str(config)]) == {
        "output_path": "from/config",
        "tasks": ["a", "b"],
    }
    assert arguments_of_command(["lm_eval", "--config", "none.yaml"]) == {}
    assert arguments_of_command(["my_script.py", "--output_path", "mine"]) == {}
    assert arguments_of_command(["lm_eval", "--include_path", "x"])["include_path"] == [str(Path("x").absolute())]


def test_when_the_harness_index_is_needed() -> None:
    manager = task_manager(include_defaults=False)
    for names in (["careqa_open"], ["healthcare_mcqa", "medtext"], ["healthcare*"], ["healthcare"]):
        assert not needs_harness_index(names, manager), names
    for names in (["hellaswag"], ["careqa_open", "arc_easy"], ["careqa_*"], ["none_such"]):
        assert needs_harness_index(names, manager), names


def test_python_interface(tmp_path: Path) -> None:
    manager = task_manager(
        include_path=user_folder(tmp_path, "mine"), metadata={"data": "sample"}, include_defaults=False
    )
    assert {"careqa_open", "mine"} <= set(manager.all_subtasks)
    assert isinstance(tasks_path(), Path)
    assert (tasks_path() / "careqa" / "careqa_open.yaml").is_file()


def test_a_users_task_wins_over_the_packs(tmp_path: Path) -> None:
    manager = task_manager(include_path=[user_folder(tmp_path, "medtext")], include_defaults=False)
    assert Path(manager.task_index["medtext"].yaml_path).parent == tmp_path


# The small commands


def test_path_and_version(cli: Callable[..., Any]) -> None:
    assert cli("path").stdout.strip() == str(tasks_path())
    assert cli("--version").stdout.startswith("lm-eval-healthcare 0.")


def test_list(cli: Callable[..., Any]) -> None:
    content = json.loads(cli("list", "--format", "json", env={"LM_EVAL_HEALTHCARE_METRICS": "default"}).stdout)
    tasks = {task["name"]: task for task in content["tasks"]}
    assert tasks["careqa_es"]["languages"] == ["es"]
    assert tasks["careqa_open"]["metrics"] == metrics.resolve("default", languages=("en",))
    assert tasks["pubmedqa"]["rows"] == 500
    assert all(Path(task["file"]).is_file() for task in tasks.values())
    assert "healthcare_mcqa" in {group["name"] for group in content["groups"]}
    text = cli("list").stdout
    for column in ("kind", "rows", "lang", "source", "licence", "also"):
        assert column in text
    assert all(name in text for name in tasks)
    assert {tag["name"] for tag in content["tags"]} >= {
        "healthcare",
        "healthcare_perplexity",
        "healthcare_credentialed",
    }


def test_check_is_content_and_lists_every_problem(tmp_path: Path, cli: Callable[..., Any]) -> None:
    done = cli("check", "--tasks", "healthcare_mcqa,careqa_open", "--metadata", "data=sample", "metrics=ngram")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ready to run." in done.stdout
    write_jsonl(tmp_path / "careqa_open.jsonl", [{"Question": "x", "answer": "y"}])
    write_jsonl(tmp_path / "medtext.jsonl", [{"Prompt": "x", "Completion": 3}])
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "broken.yaml").write_text("task: [")
    done = cli(
        "check", "--tasks", "careqa_open,medtext,pubmedqa,nothing_such", "--metadata", f"data={tmp_path}",
        "metrik=bleu", "metrics=blue", "--include_path", str(tmp_path / "user"), "--format", "json",
    )  # fmt: skip
    assert done.returncode == 1
    content = json.loads(done.stdout)
    assert content["ok"] is False
    problems = {task["name"]: task["problems"] for task in content["tasks"]}
    assert "careqa_open.jsonl, row 1: column 'question' is missing" in problems["careqa_open"][0]
    assert "medtext.jsonl, row 1: column 'Completion'" in problems["medtext"][0]
    assert "no rows in" in problems["pubmedqa"][0]
    joined = "\n".join(content["problems"])
    assert "nothing_such" in joined
    assert "broken.yaml" in joined
    assert "metrik" in joined
    assert "metrics=blue" in joined
