"""The command `score` as people use it: in processes of its own, killed, twice at once, on samples and answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from lm_eval_healthcare.scoring.score_cache import FILE_NAME, ScoreCache, key
from support import child_environment, write_jsonl

Cli = Callable[..., subprocess.CompletedProcess[str]]
STAMP = "2026-03-01T10-00-00.000001"

# A neural metric that takes its time and writes down every pair that it computes.
SLOW = """
    import os, sys, time
    import numpy as np
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.cli.main import main
    from lm_eval_healthcare.metrics.base import Measured, Metric

    class Slow(Metric):
        name, description, heavy, limited, maximum = "slow", "letters, slowly", True, True, 1000.0
        family, options = "slow", ("report",)
        def measure(self, names, predictions, references, **options):
            scores = np.array([len(text) / 7 for text in predictions])
            for row, text in enumerate(predictions):
                time.sleep(float(os.environ["PAUSE"]))
                with open(os.environ["LOG"], "a") as log:
                    log.write(f"{os.getpid()} {text}\\n")
                options["report"]("slow", row, float(scores[row]), row % 2 == 0)
            return Measured({"slow": scores}, {"slow": np.arange(len(scores)) % 2 == 0})
        def signature(self, **options):
            return "slow|impl:test"

    metrics.register(Slow())
    sys.exit(main(sys.argv[1:]))
"""


# A neural metric that always fails.
BROKEN = """
    import sys
    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.cli.main import main
    from lm_eval_healthcare.metrics.base import Metric

    class Broken(Metric):
        name, description, heavy = "broken", "nothing", True
        def measure(self, names, predictions, references, **options):
            raise RuntimeError("no memory left")
        def signature(self, **options):
            return "broken|impl:test"

    metrics.register(Broken())
    sys.exit(main(sys.argv[1:]))
"""


def row(number: int, answer: str, **more: Any) -> dict[str, Any]:
    return {
        "doc_id": number,
        "doc": {"question": f"Question {number}?", "answer": f"answer {number}"},
        "target": f"answer {number}",
        "arguments": {"gen_args_0": {"arg_0": f"Question {number}?", "arg_1": {"until": []}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": "none",
        "metrics": ["bleu"],
        "bleu": 0.5,
        **more,
    }


def put(folder: Path, answers: list[str], task: str = "mine") -> Path:
    """The files of a run."""
    file = write_jsonl(folder / f"samples_{task}_{STAMP}.jsonl", [row(n, text) for n, text in enumerate(answers)])
    content = {"results": {task: {"alias": task, "bleu,none": 0.5}}, "model_name": f"org/{folder.name}"}
    (folder / f"results_{STAMP}.json").write_text(json.dumps(content))
    return file


def start(script: Path, log: Path, *arguments: object, pause: float = 0.0, code: str = SLOW) -> subprocess.Popen[str]:
    script.write_text(textwrap.dedent(code))
    command = [sys.executable, str(script), "score", *map(str, arguments)]
    environment = child_environment(PAUSE=str(pause), LOG=str(log))
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def new_results(folder: Path) -> list[dict[str, Any]]:
    """The results that `score` wrote, oldest first."""
    contents = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("**/results_*.json"))]
    return [content for content in contents if (content.get("config") or {}).get("scored_from")]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_killed_and_given_again_no_pair_that_was_kept_is_computed_twice(tmp_path: Path) -> None:
    texts = ["x" * (n + 1) for n in range(60)]
    put(tmp_path / "model", texts)
    arguments = [tmp_path / "model", "--metrics", "slow,bleu", "--score-cache", tmp_path / "cache"]
    first = start(tmp_path / "slow.py", tmp_path / "log1", *arguments, pause=0.1)
    keys = {key(text, [f"answer {n}"]): text for n, text in enumerate(texts)}

    def kept() -> set[str]:
        with ScoreCache.open(tmp_path / "cache") as cache:
            return {keys[one] for one in cache.get("slow|impl:test", keys)}

    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "cache" / FILE_NAME).is_file() or len(kept()) < 10:
            assert first.poll() is None, first.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    known = kept()
    assert 10 <= len(known) < 60
    assert new_results(tmp_path) == []
    second = start(tmp_path / "slow.py", tmp_path / "log2", *arguments)
    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    computed = [line.split(" ")[1] for line in (tmp_path / "log2").read_text().splitlines()]
    assert Counter(computed) == Counter(text for text in texts if text not in known)
    assert f"60 pairs, {60 - len(known)} computed, {len(known)} from the score cache" in out
    (content,) = new_results(tmp_path)
    # Letters 1 to 60 over 7: mean 61 / 2 / 7.
    assert content["results"]["mine"]["slow,none"] == pytest.approx(61 / 14, abs=1e-12)
    assert content["results"]["mine"]["slow_coverage,none"] == 1.0
    assert not list((tmp_path / "model").glob(".*"))


def test_a_failing_metric_is_told_once(tmp_path: Path) -> None:
    for model in "abc":
        put(tmp_path / "runs" / model, [f"{model} {n}" for n in range(150)])
        put(tmp_path / "runs" / model, ["x"], task="other")
    arguments = [tmp_path / "runs", "--metrics", "broken,bleu", "-o", tmp_path / "out"]
    done = start(tmp_path / "broken.py", tmp_path / "log", *arguments, code=BROKEN)
    out, err = done.communicate(timeout=120)
    assert done.returncode == 1
    assert "Traceback" not in err
    assert "broken failed (RuntimeError: no memory left): mine (3 runs), other (3 runs)" in err.splitlines()
    assert err.count("no memory left") == 2  # when it happens, and at the end
    assert "0 pairs, 0 computed" in out
    assert len(new_results(tmp_path / "out")) == 3
    done = start(tmp_path / "broken.py", tmp_path / "log", *arguments, "--verbose", code=BROKEN)
    assert "Traceback" in done.communicate(timeout=120)[1]


@pytest.mark.long
def test_a_failing_metric_of_saved_answers_is_told_too(tmp_path: Path, cli: Cli) -> None:
    run = ["run", "--model", "dummy", "--tasks", "careqa_open", "--metadata", "data=sample", "metrics=bleu",
           "--output_path", str(tmp_path / "out")]  # fmt: skip
    assert cli(*run).returncode == 0
    arguments = [tmp_path / "out" / "answers", "--metrics", "broken,bleu", "-o", tmp_path / "again"]
    done = start(tmp_path / "broken.py", tmp_path / "log", *arguments, code=BROKEN)
    _, err = done.communicate(timeout=120)
    assert done.returncode == 1
    assert "broken failed (RuntimeError: no memory left): careqa_open" in err.splitlines()


def test_two_at_once_finish_with_the_same_numbers(tmp_path: Path) -> None:
    put(tmp_path / "a", [f"answer {n}" for n in range(30)])
    put(tmp_path / "b", [f"answer of b {n}" for n in range(30)])
    arguments = [tmp_path, "--metrics", "slow,rouge1", "--score-cache", tmp_path / "cache"]
    both = [start(tmp_path / f"slow{n}.py", tmp_path / f"log{n}", *arguments, pause=0.01) for n in range(2)]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    results = new_results(tmp_path)
    assert sorted(content["model_name"] for content in results) == ["org/a", "org/a", "org/b", "org/b"]
    for name in ("org/a", "org/b"):
        first, second = (content for content in results if content["model_name"] == name)
        for kind in ("results", "task_hashes", "n-samples", "configs"):
            assert first[kind] == second[kind]
    for content in results:
        assert content["results"]["mine"]["slow_coverage,none"] == 1.0
    for folder in ("a", "b"):
        _, one, other = sorted((tmp_path / folder).glob("samples_*"))
        assert one.read_bytes() == other.read_bytes()


def test_a_source_is_scored_once_more_and_not_its_scores(tmp_path: Path, cli: Cli) -> None:
    put(tmp_path / "a", ["an answer", "answer 1"])
    for count in (1, 2):
        done = cli("score", str(tmp_path), "--metrics", "bleu,rouge1")
        assert done.returncode == 0, done.stderr
        assert len(new_results(tmp_path)) == count
    assert "1 result is an earlier one of this command" in done.stderr
    table = done.stdout.split("\n\n")[0].splitlines()
    assert table[0].split() == ["task", "n", "metric", "value", "stderr", "coverage", "seconds"]
    # `answer 1` is the reference; `an answer` shares one word of two with `answer 0`: F1 = 1/2. Mean 0.75.
    assert [line.split()[:5] for line in table[3:]] == [["mine", "2", "rouge1", "0.7500", "0.2500"]]


def test_several_models_runs_and_filters_have_columns(tmp_path: Path, cli: Cli) -> None:
    put(tmp_path / "a", ["x"])
    put(tmp_path / "b", ["x"])
    write_jsonl(tmp_path / "b" / "samples_mine_2026-03-02T10-00-00.000001.jsonl", [row(0, "x", filter="k,all")])
    (tmp_path / "b" / "results_2026-03-02T10-00-00.000001.json").write_text('{"results": {}, "model_name": "org/b"}')
    done = cli("score", str(tmp_path), "--metrics", "bleu", "--output-dir", str(tmp_path / "out"))
    lines = done.stdout.splitlines()
    assert lines[0].split()[:6] == ["model", "run", "task", "filter", "n", "metric"]
    assert [line.split()[0] for line in lines[2:5]] == ["org/a", "org/b", "org/b"]
    assert {path.parent.name for path in (tmp_path / "out").glob("**/results_*.json")} == {"org__a", "org__b"}


def test_output_as_a_file_name(tmp_path: Path, cli: Cli) -> None:
    put(tmp_path / "a", ["x"])
    done = cli("score", str(tmp_path / "a"), "--metrics", "bleu", "-o", str(tmp_path / "new" / "mine.json"))
    assert done.returncode == 0, done.stderr
    names = sorted(path.name.split("_")[0] for path in (tmp_path / "new").iterdir())
    assert names == ["mine", "samples"]


def test_cut_line_and_bad_file(tmp_path: Path, cli: Cli) -> None:
    file = put(tmp_path / "a", ["x", "y"])
    with file.open("a") as stream:
        stream.write('{"doc_id": 2, "doc": {"quest')
    other = put(tmp_path / "b", ["x", "y"])
    other.write_text("{\n" + other.read_text())
    arguments = ["score", str(tmp_path), "--metrics", "bleu", "-o", str(tmp_path / "out")]
    done = cli(*arguments)
    assert done.returncode == 0, done.stderr
    assert f"{file}: line 3, the last one, is cut and was skipped" in done.stderr
    assert f"{other}, line 1: not a row of JSON" in done.stderr
    assert "2 files or lines could not be used" in done.stderr
    assert [content["n-samples"]["mine"]["effective"] for content in new_results(tmp_path / "out")] == [2]
    assert cli(*arguments, "--strict").returncode == 1


def test_nothing_to_score(tmp_path: Path, cli: Cli) -> None:
    put(tmp_path / "a", ["x"])
    (tmp_path / "empty").mkdir()
    for arguments, told in [
        ([tmp_path / "empty"], "no samples_*.jsonl and no saved answers there; a run logs samples with --log_samples"),
        ([tmp_path / "a", "--where", "task=other"], "--where matches nothing: models are org/a; tasks are mine"),
    ]:
        done = cli("score", *map(str, arguments))
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert told in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["PATH", "--where", "mine"], "--where mine: expected model=PATTERN or task=PATTERN"),
        (["PATH", "--device", "later"], "use auto, cpu, cuda or cuda:N"),
        (["PATH", "--device", "tpu"], "metrics_device=tpu: expected auto, cpu, cuda or cuda:N"),
        (["PATH", "--batch-tokens", "0"], "metrics_batch_tokens=0: expected a whole number of at least 1"),
        (["PATH", "--metrics", "blue"], "Did you mean 'bleu'"),
        (["PATH", "--metadata", "metrix=bleu"], "did you mean 'metrics'"),
        (["PATH", "--metadata", "bleu"], "--metadata bleu: write key=value items, or one JSON object"),
        (["PATH", "--metadata", "{"], "not valid JSON"),
        (["PATH", "--metrics", "bert_score", "--bert-score-model", "/nowhere/m"], "/nowhere/m"),
        (["/nowhere/results"], "/nowhere/results: no such file or folder"),
        (["PATH", "--metrics", "bleu", "/nowhere/results"], "/nowhere/results: no such file or folder"),
        ([], "no PATH was given"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str) -> None:
    put(tmp_path, ["x"])
    assert main(["score", *(str(tmp_path) if one == "PATH" else one for one in arguments)]) == 2
    assert told in capsys.readouterr().err
    assert new_results(tmp_path) == []


def test_flags_are_not_shortened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["score", str(tmp_path), "--metric=bleu"])
    assert ended.value.code == 2
    assert "there is no --metric=bleu; did you mean --metrics?" in capsys.readouterr().err


def test_options_of_no_use_are_told(tmp_path: Path, cli: Cli) -> None:
    put(tmp_path / "a", ["x"])
    done = cli("score", str(tmp_path / "a"), "--metrics", "bleu", "--bert-score-layer", "3", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "bert_score_layer changes nothing: no metric that is computed here takes it" in done.stderr
    assert "metrics_device" not in done.stderr


def test_paths_may_stand_behind_any_flag(tmp_path: Path, cli: Cli) -> None:
    put(tmp_path / "a", ["x"])
    done = cli("score", "--where", "task=m*", str(tmp_path / "a"), "--metadata", '{"metrics": ["bleu", "rouge2"]}')
    assert done.returncode == 0, done.stderr
    assert [line.split()[2] for line in done.stdout.splitlines()[2:4]] == ["bleu", "rouge2"]


def test_metrics_may_be_apart_or_come_from_the_environment(tmp_path: Path, cli: Cli) -> None:
    put(tmp_path / "a", ["x"])

    def metrics_of(*arguments: str, **env: str) -> list[str]:
        done = cli("score", *arguments, "-o", str(tmp_path / "out"), env=env)
        assert done.returncode == 0, done.stderr
        return [line.split()[2] for line in done.stdout.split("\n\n")[0].splitlines()[2:]]

    path, env = str(tmp_path / "a"), {"LM_EVAL_HEALTHCARE_METRICS": "rouge2"}
    assert metrics_of(path, "--metrics", "rouge1", "bleu") == ["rouge1", "bleu"]
    assert metrics_of("--metrics", "rouge1,rougeL", "bleu", path) == ["rouge1", "rougeL", "bleu"]
    assert metrics_of(path, **env) == ["rouge2"]
    assert metrics_of(path, "--metrics", "rouge1", **env) == ["rouge1"]


def test_files_are_not_all_listed(tmp_path: Path, cli: Cli) -> None:
    for number in range(14):
        put(tmp_path / f"m{number:02}", ["x"])
    done = cli("score", str(tmp_path), "--metrics", "bleu", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("results: ") for line in lines) == 10
    assert lines[-1] == "and 4 more"


def test_odd_names_are_shown_as_escapes(tmp_path: Path, cli: Cli) -> None:
    file = put(tmp_path / "a", ["x"], task="mi\x1b[31mne")
    (results,) = (tmp_path / "a").glob("results_*")
    results.write_text('{"results": {}, "model_name": "bad\\nmodel\\u001b[2J", "model_name_sanitized": "../../b\\nc"}')
    write_jsonl(tmp_path / "a" / f"samples_\x1bother_{STAMP}.jsonl", [row(0, "x", target=None)])
    put(tmp_path / "b", ["x"])
    (tmp_path / "b" / f"samples_x\ny_{STAMP}.jsonl").write_text("{\n{\n")
    done = cli("score", str(tmp_path), "--metrics", "bleu", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert r"mi\x1b[31mne" in done.stdout
    assert r"bad\nmodel\x1b[2J" in done.stdout
    assert r"x\ny" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"..__..__b_c", "org__b"}
    assert file.is_file()


def test_odd_contents_cost_their_file(tmp_path: Path, cli: Cli) -> None:
    good = put(tmp_path / "good", ["x"])
    for number, odd in enumerate([{"filtered_resps": 7}, {"arguments": [[]]}, {"doc": 7}, {"resps": {}, "doc_id": []}]):
        put(tmp_path / f"m{number}", ["x"])
        write_jsonl(tmp_path / f"m{number}" / f"samples_mine_{STAMP}.jsonl", [row(0, "x", **odd)])
    put(tmp_path / "n", ["x"])
    (tmp_path / "n" / f"results_{STAMP}.json").write_text('{"results": {}, "group_subtasks": 7, "model_name": [1]}')
    done = cli("score", str(tmp_path), "--metrics", "bleu", "-o", str(tmp_path / "out"), "--verbose")
    assert done.returncode == 0, done.stderr
    assert "'group_subtasks' is a number" in done.stderr
    assert "Traceback" not in done.stderr
    assert good.is_file()


def test_a_metric_that_is_left_out_has_no_share(tmp_path: Path, cli: Cli) -> None:
    put(tmp_path / "a", ["x"])
    arguments = ["--metrics", "bleu,bert_score", "--bert-score-model", "/nowhere/m", "--metrics-missing", "skip"]
    done = cli("score", str(tmp_path / "a"), *arguments)
    assert done.returncode == 0, done.stderr
    assert "nan%" not in done.stdout
    (line,) = [line.split() for line in done.stdout.splitlines() if "bert_score" in line]
    assert line[line.index("bert_score") :] == ["bert_score", "nan", "N/A", "0.0%"]


def test_help_names_every_option_of_a_metric(capsys: pytest.CaptureFixture[str]) -> None:
    from lm_eval_healthcare import metrics

    with pytest.raises(SystemExit):
        main(["score", "--help"])
    text = capsys.readouterr().out
    for name in metrics.option_names():
        flag = {"metrics_device": "--device", "metrics_batch_tokens": "--batch-tokens"}.get(name)
        assert (flag or f"--{name.replace('_', '-')}") in text
    assert "examples:" in text


def test_other_commands_do_not_load_the_metrics() -> None:
    code = (
        "import sys\nfrom lm_eval_healthcare.cli.main import main\nmain(['path'])\n"
        "assert 'lm_eval_healthcare.metrics' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=child_environment(), capture_output=True)


def test_a_run_with_samples_and_answers(tmp_path: Path, cli: Cli) -> None:
    run = ["run", "--model", "dummy", "--tasks", "careqa_open,careqa_en", "--metadata", "data=sample", "metrics=bleu",
           "--output_path", str(tmp_path / "out")]  # fmt: skip
    assert cli(*run).returncode == 0  # its answers have no samples
    assert cli(*run, "--log_samples").returncode == 0
    done = cli("score", str(tmp_path / "out"), "--metrics", "rouge1", "-o", str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr
    without, logged = sorted((tmp_path / "out" / "answers").iterdir())
    assert f"{logged}: the samples of careqa_en, careqa_open are scored, not these answers" in done.stderr
    assert "left out: careqa_en: its answers are choices or classes" in done.stderr
    results = new_results(tmp_path / "again")
    assert len(results) == 2
    assert [set(content["results"]) for content in results if content["config"]["scored_from"] == without.name] == [
        {"careqa_open", "careqa_en"}
    ]
    values = [content["results"]["careqa_open"]["rouge1,none"] for content in results]
    assert values[0] == values[1]
    only = cli("score", str(tmp_path / "out" / "answers"), "--where", "task=careqa_open", "-o", str(tmp_path / "both"))
    assert only.returncode == 0, only.stderr
    assert [set(content["results"]) for content in new_results(tmp_path / "both")] == [{"careqa_open"}] * 2


def test_one_folder_of_answers_that_fails_does_not_stop_the_others(tmp_path: Path, cli: Cli) -> None:
    run = ["run", "--model", "dummy", "--tasks", "careqa_open", "--metadata", "data=sample", "metrics=bleu",
           "--output_path", str(tmp_path / "out")]  # fmt: skip
    assert cli(*run).returncode == 0
    bad = tmp_path / "out" / "answers" / "2000-01-01"
    bad.mkdir()
    (bad / "run.json").write_text('{"format": "lm_eval_healthcare answers 1"}')
    (bad / "careqa_open.jsonl").write_text("{")
    done = cli("score", str(tmp_path / "out" / "answers"), "--strict")
    assert done.returncode == 1
    assert "careqa_open.jsonl, line 1: not valid JSON" in done.stderr
    assert "careqa_open" in done.stdout
