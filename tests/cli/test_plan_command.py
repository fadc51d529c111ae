"""The command `plan`: its tables, its JSON, and its errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from lm_eval_healthcare.cli.plan_tables import duration, totalled

Capture = pytest.CaptureFixture[str]
RUN = ["--model", "dummy", "--tasks", "careqa_open,medmcqa,careqa_open_relaxed_perplexity"]
DATA = ["--metadata", "data=sample", "metrics=ngram"]
RATES = ["--prompt-tokens-per-second", "100", "--output-tokens-per-second", "10"]


def test_tables(cli: Callable[..., Any]) -> None:
    done = cli("plan", *RUN, *RATES, *DATA)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (written,) = [line.split() for line in lines if line.startswith("careqa_open ")]
    # 10 requests of at most 256 tokens
    assert written[1:3] == ["10", "10"]
    assert written[5] == "2,560"
    assert [line.split()[0] for line in lines if line.startswith(("medmcqa", "total"))] == ["medmcqa", "total"]
    relaxed = next(line.split() for line in lines if line.startswith("careqa_open_relaxed_perplexity "))
    # (1 + 16 positions x 5 prefixes) for each of 10 targets; 10 samples of 128 tokens for each of 10 questions
    assert relaxed[1:6] == ["10", "10", "10", "810", "12,800"]
    assert "ESTIMATES" in done.stdout
    assert "All together: " in done.stdout
    assert "Traceback" not in done.stderr


def test_json(capsys: Capture) -> None:
    assert main(["plan", *RUN, *DATA, "--format", "json", "--answer-tokens", "50"]) == 0
    found = json.loads(capsys.readouterr().out)
    first = found["tasks"][0]
    assert (first["task"], first["documents"], first["output_tokens"]) == ("careqa_open", 10, 500)
    assert first["minutes"] is None
    assert found["judge"] == []
    assert found["tokens_exact"] is False
    assert found["answer_length"] == "given"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tasks", "careqa_open", "--metadata", "data=/nowhere", "metrics=ngram"], "/nowhere"),
        ([*DATA], "no --tasks given"),
        (["--tasks", "careqa_open", *DATA, "--judge-samples", "3"], "--judge-samples without --judge-model"),
        (["--tasks", "careqa_open", *DATA, "--judge-model", "m", "--judge-preset", "best"], "paper, reproducible"),
    ],
)
def test_errors(capsys: Capture, arguments: list[str], told: str) -> None:
    assert main(["plan", "--model", "dummy", *arguments]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("flag", [["--no-such-flag"], ["--prompt-tokens-per-second", "0"], ["--answer-tokens", "-1"]])
def test_unknown_flags_and_values(capsys: Capture, flag: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--model", "dummy", "--tasks", "careqa_open", *DATA, *flag])
    assert ended.value.code == 2
    assert flag[0] in capsys.readouterr().err


def test_help_is_light_and_says_where_the_rest_is(cli: Callable[..., Any]) -> None:
    for arguments in (["plan", "--help"], ["plan"]):
        done = cli(*arguments)
        assert done.returncode == 0
        assert "--judge-model" in done.stdout
        assert "lm-eval-healthcare run" in done.stdout


@pytest.mark.parametrize(
    ("minutes", "told"),
    [(None, "-"), (0, "0 s"), (0.001, "1 s"), (0.4, "24 s"), (12.2, "12 min"), (99, "99 min"), (204, "3.4 h"),
     (71.9 * 60, "71.9 h"), (84 * 60, "3.5 days")],
)  # fmt: skip
def test_durations(minutes: float | None, told: str) -> None:
    assert duration(minutes) == told


def test_totals_and_alignment() -> None:
    rows = [
        {"task": "a", "requests": 1000, "longest_prompt": 7, "minutes": 30.0},
        {"task": "bb", "requests": 234, "longest_prompt": 90, "minutes": None},
    ]
    names = {"task": "task", "requests": "requests", "longest_prompt": "longest", "minutes": "time"}
    assert totalled(rows, names).splitlines() == [
        "task   requests  longest    time",
        "-----  --------  -------  ------",
        "a         1,000        7  30 min",
        "bb          234       90       -",
        "-----  --------  -------  ------",
        "total     1,234       90       -",
    ]
    assert "total" not in totalled(rows[:1], names)
