"""Answers are on disk before scoring: a killed process, a failing metric and a full disk cost none of them."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.data.catalogue import read_yaml
from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.harness import rescue
from lm_eval_healthcare.harness.command_line import refuse_half_written
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.replay import score_saved_run
from lm_eval_healthcare.scoring import answers as answers_module
from lm_eval_healthcare.scoring.answers import SavedRequest, read_run, write_answers, write_run
from scripted import ScriptedModel, evaluate
from support import child_environment, results_of, samples_of, write_jsonl

SLOW_RUN = """
    import sys, time
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.cli.main import main

    class Endless(type(metrics.AVAILABLE["bleu"])):
        name = "endless"
        def score(self, predictions, references, **options):
            print("SCORING", flush=True)
            time.sleep(600)

    metrics.AVAILABLE["endless"] = Endless()
    sys.exit(main(sys.argv[1:]))
"""


OPEN = set(read_yaml(tasks_path() / "groups" / "healthcare_open.yaml")["task"])


def run_arguments(out: Path, metric: str) -> list[str]:
    return [
        "run", "--model", "dummy", "--tasks", "careqa_open,careqa_en", "--metadata", "data=sample", f"metrics={metric}",
        "--output_path", str(out), "--log_samples",
    ]  # fmt: skip


def test_kill_in_the_middle_of_scoring_costs_no_answer(tmp_path: Path, cli: Callable[..., Any]) -> None:
    script, log = tmp_path / "slow.py", tmp_path / "log"
    script.write_text(textwrap.dedent(SLOW_RUN))
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, str(script), *run_arguments(tmp_path / "killed", "endless")],
            stdout=stream, stderr=stream, env=child_environment(PYTHONUNBUFFERED="1"),
        )  # fmt: skip
        try:
            deadline = time.time() + 120
            while "SCORING" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.time() < deadline
                time.sleep(0.1)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert not list((tmp_path / "killed").glob("**/results_*.json"))
    (folder,) = (tmp_path / "killed" / "answers").iterdir()
    assert f"lm-eval-healthcare score {folder}" in log.read_text()
    done = cli("score", str(folder), "--metrics", "rouge1")
    assert done.returncode == 0, done.stderr
    scored = results_of(tmp_path / "killed")
    assert scored["n-samples"]["careqa_open"] == {"original": 10, "effective": 10}
    assert scored["results"]["careqa_open"]["rouge1_coverage,none"] == 1.0
    saved = read_run(folder)
    logged = samples_of(tmp_path / "killed", "careqa_open")
    assert [r.resps for r in saved.tasks["careqa_open"]] == [s["resps"][0] for s in logged]
    assert len(saved.tasks["careqa_en"]) == 12 * 4


def test_saved_answers_score_as_the_run_did(tmp_path: Path, cli: Callable[..., Any]) -> None:
    done = cli(*run_arguments(tmp_path / "run", "ngram"))
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "run" / "answers").iterdir()
    again = cli("score", str(folder), "-o", str(tmp_path / "again"))
    assert again.returncode == 0, again.stderr
    first, second = results_of(tmp_path / "run"), results_of(tmp_path / "again")
    for key in ("results", "n-samples", "n-shot", "higher_is_better", "versions", "group_subtasks", "task_hashes"):
        assert first[key] == second[key]
    for task in ("careqa_open", "careqa_en"):
        assert samples_of(tmp_path / "run", task) == samples_of(tmp_path / "again", task)
        signatures = [r["configs"][task]["metadata"]["healthcare"]["signatures"] for r in (first, second)]
        assert signatures[0] == signatures[1]


def test_all_tasks_are_saved_before_the_first_is_scored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    evaluate(
        "healthcare_open", ScriptedModel(["an answer"]), metadata={"metrics": "bleu", "answers": str(tmp_path)}
    )  # fmt: skip
    (folder,) = tmp_path.iterdir()
    files = {path.name for path in folder.iterdir()}
    assert files == {"run.json", *(f"{name}.jsonl" for name in OPEN)}
    messages = [record.getMessage() for record in caplog.records]
    (saved,) = [i for i, m in enumerate(messages) if "are saved in" in m]
    assert not any(m.startswith("scoring") for m in messages[:saved])


def test_a_full_disk_is_told_and_scores_come_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path, *args: Any) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(answers_module, "_write_whole", full)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = evaluate(
        "careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu", "answers": str(tmp_path / "full")}
    )  # fmt: skip
    assert "No space left on device" in caplog.text
    assert "NOT on disk" in caplog.text
    assert out["results"]["careqa_open"]["bleu_coverage,none"] == 1.0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_half_a_file_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    def request(i: int) -> SavedRequest:
        return SavedRequest(i, 0, "generate_until", {"q": "x"}, ["p", {}], ["a"])

    def lines() -> Any:
        yield request(0)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_answers(tmp_path, "task", lines())
    assert list(tmp_path.iterdir()) == []


def test_whatever_fails_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(rescue, "_describe", broken)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    out = evaluate("careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu", "answers": str(tmp_path)})
    assert "not foreseen" in caplog.text
    assert out["results"]["careqa_open"]["bleu_coverage,none"] == 1.0


def test_an_output_path_that_is_not_utf8(tmp_path: Path, cli: Callable[..., Any]) -> None:
    out = os.fsdecode(os.fsencode(tmp_path) + b"/m\xe9d")
    done = cli(*run_arguments(Path(out), "bleu"))
    assert "|careqa_open|" in done.stdout, done.stderr
    assert "are saved in" in done.stderr


def test_secrets_are_not_written(tmp_path: Path, cli: Callable[..., Any]) -> None:
    arguments = [*run_arguments(tmp_path, "bleu"), "--model_args", "api_key=hf_SECRET,auth_token=hf_SECRET,other=x"]
    done = cli(*arguments)
    assert done.returncode == 0, done.stderr
    for path in (tmp_path / "answers").glob("**/*"):
        assert path.is_dir() or "hf_SECRET" not in path.read_text()


def test_answers_of_a_run_that_died_are_not_mixed_into_the_next(tmp_path: Path) -> None:
    """What a notebook does: the first evaluation fails after generation, its objects live on, a second one runs."""
    kept = []

    class Dying(ScriptedModel):
        def loglikelihood(self, requests: list[Any]) -> Any:
            raise RuntimeError("the GPU is gone")

    metadata = {"data": "sample", "metrics": "bleu", "answers": str(tmp_path)}
    manager = task_manager(metadata=metadata, include_defaults=False)
    tasks = list(manager.load(["careqa_open", "careqa_en"])["tasks"].values())
    kept += tasks
    with pytest.raises(RuntimeError, match="the GPU is gone"):
        simple_evaluate(model=Dying(["OLD ANSWER"]), tasks=list(tasks), task_manager=manager)
    evaluate("careqa_open", ScriptedModel(["NEW ANSWER"]), metadata={"metrics": "bleu", "answers": str(tmp_path)})
    runs = [read_run(folder).tasks for folder in sorted(tmp_path.iterdir())]
    assert [set(run) for run in runs] == [{"careqa_open"}, {"careqa_open"}]
    answers = [{resp for request in run["careqa_open"] for resp in request.resps} for run in runs]
    assert answers == [{"OLD ANSWER"}, {"NEW ANSWER"}]
    assert kept


def test_two_evaluations_of_one_task_object(tmp_path: Path) -> None:
    manager = task_manager(
        metadata={"data": "sample", "metrics": "bleu", "answers": str(tmp_path)}, include_defaults=False
    )
    (task,) = manager.load(["careqa_open"])["tasks"].values()
    first = simple_evaluate(model=ScriptedModel([""]), tasks=[task], task_manager=manager)
    second = simple_evaluate(model=ScriptedModel(["an answer"]), tasks=[task], task_manager=manager)
    reasons = [out["configs"]["careqa_open"]["metadata"]["healthcare"]["reasons"] for out in (first, second)]
    assert reasons == [{"empty_prediction": 10}, {}]
    assert len(list(tmp_path.iterdir())) == 2


def test_scoring_again_knows_what_only_the_run_knew(tmp_path: Path, cli: Callable[..., Any]) -> None:
    """Options from the environment, generation arguments, a selection of documents: all as in the run."""
    out = tmp_path / "out"
    done = cli(
        "run", "--model", "dummy", "--tasks", "careqa_open", "--metadata", "data=sample", "--samples",
        '{"careqa_open": [3, 7]}', "--gen_kwargs", "max_gen_toks=7", "--output_path", str(out), "--log_samples",
        env={"LM_EVAL_HEALTHCARE_METRICS": "rouge1", "LM_EVAL_HEALTHCARE_PROMPT": "pack"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder,) = (out / "answers").iterdir()
    again = cli("score", str(folder), "-o", str(tmp_path / "again"), env={"LM_EVAL_HEALTHCARE_METRICS": ""})
    assert again.returncode == 0, again.stderr
    first, second = results_of(out), results_of(tmp_path / "again")
    assert first["results"] == second["results"]
    assert first["n-samples"] == second["n-samples"] == {"careqa_open": {"original": 10, "effective": 2}}
    a, b = first["configs"]["careqa_open"], second["configs"]["careqa_open"]
    assert a["generation_kwargs"] == b["generation_kwargs"]
    assert b["generation_kwargs"]["max_gen_toks"] == 7
    assert a["description"] == b["description"]
    a, b = a["metadata"]["healthcare"], b["metadata"]["healthcare"]
    assert (b["prompt"], b["signatures"], b["data"]["source"]) == ("pack", a["signatures"], "sample")
    assert [s["doc_id"] for s in samples_of(tmp_path / "again", "careqa_open")] == [3, 7]
    assert second["config"]["gen_kwargs"] == first["config"]["gen_kwargs"]


def test_a_chat_run_is_scored_again(tmp_path: Path) -> None:
    metadata = {"metrics": "bleu", "answers": str(tmp_path)}
    model = ScriptedModel(["\n\nAn answer.\n\nIts second part."])
    evaluate("careqa_open", model, metadata=metadata, apply_chat_template=True)
    (folder,) = tmp_path.iterdir()
    _, results = score_saved_run(folder, tmp_path / "again", {})
    assert results["configs"]["careqa_open"]["generation_kwargs"]["until"] == []
    (sample, *_) = samples_of(tmp_path / "again", "careqa_open")
    assert sample["filtered_resps"] == ["An answer.\n\nIts second part."]
    assert sample["arguments"]["gen_args_0"]["arg_0"].startswith("[system] ")


def test_incomplete_answers_are_refused(tmp_path: Path, cli: Callable[..., Any]) -> None:
    evaluate("healthcare_open", ScriptedModel(["x"]), metadata={"metrics": "bleu", "answers": str(tmp_path)})
    (folder,) = tmp_path.iterdir()
    (folder / "medtext.jsonl").unlink()
    with pytest.raises(DataError, match=r"the answers in medtext are missing.*--partial"):
        read_run(folder)
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "world_size": 2, "tasks": {"careqa_open": {}}}))
    with pytest.raises(DataError, match=r"careqa_open\.rank1"):
        read_run(folder)
    (folder / "run.json").write_text(json.dumps(run))
    done = cli("score", str(folder), "--partial", "-o", str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr
    assert set(results_of(tmp_path / "again")["results"]) == OPEN - {"medtext"}


def test_texts_are_on_disk_before_log_likelihoods_are_computed(tmp_path: Path) -> None:
    seen = []

    class Watching(ScriptedModel):
        def loglikelihood(self, requests: list[Any]) -> Any:
            seen.extend(path.name for path in tmp_path.glob("*/*"))
            raise KeyboardInterrupt

    metadata = {"data": "sample", "metrics": "bleu", "answers": str(tmp_path)}
    manager = task_manager(metadata=metadata, include_defaults=False)
    with pytest.raises(KeyboardInterrupt):
        simple_evaluate(model=Watching(["text"]), tasks=["careqa_open", "careqa_en"], task_manager=manager)
    assert set(seen) == {"run.json", "careqa_open.jsonl"}
    (folder,) = tmp_path.iterdir()
    _, results = score_saved_run(folder, tmp_path / "again", {})
    assert set(results["results"]) == {"careqa_open"}


def test_another_task_that_fails_first_costs_no_answer(tmp_path: Path) -> None:
    """A task of somebody else, listed first, whose scoring raises."""
    folder = tmp_path / "user"
    file = write_jsonl(folder / "rows.jsonl", [{"q": "q", "a": "a"}])
    (folder / "utils.py").write_text("def fail(doc, results):\n    raise RuntimeError('theirs')\n")
    (folder / "aaa.yaml").write_text(
        f"task: aaa\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {file}}}}}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\ngeneration_kwargs: {until: [x]}\n"
        "process_results: !function utils.fail\nmetric_list: [{metric: m, aggregation: mean, higher_is_better: true}]\n"
    )
    metadata = {"data": "sample", "metrics": "bleu", "answers": str(tmp_path / "answers")}
    manager = task_manager(include_path=folder, metadata=metadata, include_defaults=False)
    with pytest.raises(RuntimeError, match="theirs"):
        simple_evaluate(model=ScriptedModel(["text"]), tasks=["aaa", "careqa_open"], task_manager=manager)
    (saved,) = (tmp_path / "answers").iterdir()
    assert len(read_run(saved).tasks["careqa_open"]) == 10


@pytest.mark.long
def test_a_users_task_is_scored_again_as_it_was(tmp_path: Path, cli: Callable[..., Any]) -> None:
    """Rows that went through a user's process_docs, a name with a slash, another directory: the same scores."""
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "utils.py").write_text("def half(rows):\n    return rows.select(range(len(rows) // 2))\n")
    (folder / "mine.yaml").write_text(
        f"include: {tasks_path() / 'careqa' / 'careqa_en.yaml'}\ntask: my/half\nprocess_docs: !function utils.half\n"
    )
    arguments = ["run", "--model", "dummy", "--tasks", "my/half", "--include_path", "user", "--metadata", "data=sample"]
    done = cli(*arguments, "--output_path", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (saved,) = (tmp_path / "out" / "answers").iterdir()
    (tmp_path / "elsewhere").mkdir()
    again = cli("score", str(saved), "-o", str(tmp_path / "again"), cwd=tmp_path / "elsewhere")
    assert again.returncode == 0, again.stderr
    first, second = results_of(tmp_path / "out"), results_of(tmp_path / "again")
    assert first["results"] == second["results"]
    assert first["results"]["my/half"]["sample_len"] == 6


def test_no_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    metadata = {"metrics": "bleu", "answers": str(tmp_path)}
    evaluate("careqa_open", ScriptedModel(["x"]), metadata=metadata)
    with pytest.raises(OptionError, match="answers=~nobody_at_all/x: there is no such user's home"):
        evaluate("careqa_open", ScriptedModel(["x"]), metadata={**metadata, "answers": "~nobody_at_all/x"})
    assert len(list(tmp_path.iterdir())) == 1


def test_repeats_survive(tmp_path: Path) -> None:
    """Three answers a question: all are saved, the first is scored, then and again."""
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "three.yaml").write_text(
        f"include: {tasks_path() / 'careqa' / 'careqa_open.yaml'}\ntask: three\nrepeats: 3\n"
        'generation_kwargs: {until: ["###"], do_sample: true, temperature: 1.0, max_gen_toks: 9}\n'
    )
    write_jsonl(tmp_path / "rows" / "three.jsonl", [{"question": "q", "answer": "first"}])
    metadata = {"data": str(tmp_path / "rows"), "metrics": "rouge1", "answers": str(tmp_path / "answers")}
    manager = task_manager(include_path=folder, metadata=metadata, include_defaults=False)
    model = ScriptedModel(["first", "second", "third"])
    out = simple_evaluate(model=model, tasks=["three"], task_manager=manager, apply_chat_template=True)
    assert out["results"]["three"]["rouge1,none"] == 1.0
    assert {tuple(arguments["until"]) for _, arguments in model.seen} == {("###",)}, "the user's YAML has its say"
    (saved,) = (tmp_path / "answers").iterdir()
    assert read_run(saved).tasks["three"][0].resps == ["first", "second", "third"]


def test_the_next_folder_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "file").write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    evaluate("careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu", "answers": str(tmp_path / "file" / "x")})
    (folder,) = (tmp_path / "cache" / "lm_eval_healthcare" / "answers").iterdir()
    assert len(read_run(folder).tasks["careqa_open"]) == 10


def test_answers_survive_the_way_to_disk(tmp_path: Path) -> None:
    hostile = ["\ud83d", "a\u2028b\u0085c\x00", "", '"}]\n{"', "x" * 100_000, "é 🩺 µg ≥"]
    requests = [
        SavedRequest(i, 0, "generate_until", {"q": text}, [text, {"until": ["\n\n"]}], [text])
        for i, text in enumerate(hostile)
    ]
    write_run(tmp_path, {"tasks": {}})
    write_answers(tmp_path, "task", requests)
    back = read_run(tmp_path).tasks["task"]
    assert [r.resps[0] for r in back] == ["\ufffd", *hostile[1:]]
    assert back[1:] == requests[1:]


def test_ranks_are_put_together(tmp_path: Path) -> None:
    def request(i: int) -> SavedRequest:
        return SavedRequest(i, 0, "loglikelihood", {"q": str(i)}, ["p", " A"], [[-1.0, False]])

    write_run(tmp_path, {})
    write_answers(tmp_path, "task", [request(0), request(2)], rank=0)
    write_answers(tmp_path, "task", [request(1), request(3)], rank=1)
    assert [r.doc_id for r in read_run(tmp_path).tasks["task"]] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "no saved answers here"),
        ({"run.json": "{}"}, "but no task's answers"),
        ({"run.json": "{"}, r"run\.json: not valid JSON"),
        ({"run.json": "{}", "t.jsonl": "{"}, r"t\.jsonl, line 1: not valid JSON"),
        ({"run.json": "{}", "t.jsonl": '{"doc_id": 1}'}, r"t\.jsonl, line 1: not a saved answer"),
    ],
)
def test_folders_that_cannot_be_scored(tmp_path: Path, files: dict[str, str], told: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=told):
        read_run(tmp_path)


def test_answers_that_a_run_did_not_come_to_save(tmp_path: Path, cli: Callable[..., Any]) -> None:
    run = tmp_path / "out" / "answers" / "2026-01-01T00-00-00"
    write_run(run, {})
    done = cli("score", str(tmp_path / "out"))
    assert done.returncode == 2
    assert f"{run}: run.json is there, but no task's answers" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(DataError, match=f"Did you mean {run}"):
        read_run(tmp_path / "out")


def test_run_json_says_how_the_run_was_made(tmp_path: Path) -> None:
    evaluate("careqa_open", ScriptedModel(["x"]), metadata={"metrics": "bleu", "answers": str(tmp_path)})
    (folder,) = tmp_path.iterdir()
    run = json.loads((folder / "run.json").read_text())
    assert run["tasks"]["careqa_open"]["metadata"]["data"] == "sample"
    assert run["lm_eval_version"]
    assert os.path.basename(folder).startswith("20")


def test_answers_of_a_task_with_examples_of_its_own_are_scored_again(tmp_path: Path, cli: Callable[..., Any]) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_text(
        f"include: {tasks_path() / 'medqa' / 'medqa_4options_gen.yaml'}\ntask: mine\nnum_fewshot: 1\n", encoding="utf-8"
    )
    metadata = {"data": "sample", "answers": str(tmp_path / "answers")}
    manager = task_manager(str(tmp_path / "tasks"), metadata, include_defaults=False)
    first = simple_evaluate(ScriptedModel(["A", "B"]), tasks=["mine"], task_manager=manager)
    (folder,) = (tmp_path / "answers").iterdir()
    done = cli("score", str(folder), "--include_path", str(tmp_path / "tasks"), "-o", str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr
    again = results_of(tmp_path / "again")["results"]["mine"]
    assert again["acc,none"] == first["results"]["mine"]["acc,none"]


def test_a_folder_that_fills_up_leaves_later_answers_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    small, write = tmp_path / "small", answers_module._write_whole

    def full(path: Path, *args: Any) -> None:
        if small in path.parents and path.name == "medmcqa.jsonl":
            raise OSError(28, "No space left on device")
        write(path, *args)

    monkeypatch.setattr(answers_module, "_write_whole", full)
    manager = task_manager(metadata={"data": "sample", "answers": str(small)}, include_defaults=False)
    model = ScriptedModel(["an answer"], likelihood=lambda _, choice: -1.0)
    with caplog.at_level(logging.INFO):
        simple_evaluate(model, tasks=["careqa_open", "medmcqa"], task_manager=manager)
    assert [set(read_run(folder).tasks) for folder in small.iterdir()] == [{"careqa_open"}]
    (other,) = (tmp_path / "cache").glob("**/run.json")
    assert set(read_run(other.parent).tasks) == {"medmcqa"}
    assert caplog.text.count("answers are saved in") == 2


def test_a_part_of_a_set_scored_again_has_the_keys_that_it_had(tmp_path: Path) -> None:
    metadata = {"data": "sample", "answers": str(tmp_path / "answers"), "metrics": "bleu"}
    manager = task_manager(metadata=metadata, include_defaults=False)
    first = simple_evaluate(ScriptedModel(["a reply"]), tasks=["mts_dialog"], task_manager=manager, limit=3)
    (folder,) = (tmp_path / "answers").iterdir()
    _, again = score_saved_run(folder, tmp_path / "again", {})
    numbers = [
        {k: v for k, v in out["results"]["mts_dialog"].items() if isinstance(v, float)} for out in (first, again)
    ]
    assert "bleu_subset_test1,none" in numbers[0]
    assert numbers[0] == pytest.approx(numbers[1], nan_ok=True)


def test_files_that_a_full_disk_cut_are_told_and_renamed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    whole = {
        "results_2026-01-01T00-00-00.000000.json": "{}",
        "samples_a_2026-01-01T00-00-00.000000.jsonl": '{"a": 1}\n',
    }
    cut = {
        "results_2026-01-02T00-00-00.000000.json": '{"results": {"a"',
        "samples_b_2026-01-01T00-00-00.000000.jsonl": '{"a": 1}\n{"a": 2',
        "samples_c_2026-01-01T00-00-00.000000.jsonl": "",
    }
    for name, text in {**whole, **cut}.items():
        (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(OptionError, match="the disk took only a part of"):
        refuse_half_written(tmp_path, time.time() - 5)
    assert {path.name for path in folder.iterdir()} == {*whole, *(f"{name}.incomplete" for name in cut)}
    refuse_half_written(tmp_path, time.time() - 5)
