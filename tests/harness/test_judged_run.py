"""A judge in a run of the harness: scores beside the other metrics, and failures that cost nothing else."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.harness.options import OptionError, Options
from lm_eval_healthcare.judge.usability import Tally, section_of, together
from scripted import ScriptedModel, evaluate, open_rows
from scripted_server import ScriptedJudge
from support import write_jsonl

REFERENCES = ["Stop the drug.", "Halve the dose.", "Wait.", " "]
ANSWERS = ["Stop it. worth-5", "Keep it. worth-2", "", "Wait. worth-5"]


def options(server: ScriptedJudge, tmp_path: Path, **more: str) -> dict[str, Any]:
    return {"metrics": "bleu", "judge": server.base_url, "verdict_cache": str(tmp_path / "verdicts"), **more}


def test_the_judge_stands_beside_the_other_metrics(tmp_path: Path) -> None:
    rows = open_rows(tmp_path, REFERENCES)
    with ScriptedJudge() as server:
        found = evaluate(
            "careqa_open", ScriptedModel(ANSWERS), rows, metadata=options(server, tmp_path), log_samples=True
        )
        assert server.about("worth-5") == 1  # the other has no reference to be compared with
        assert server.about("Question 0?") == 1
    values = found["results"]["careqa_open"]
    assert values["prometheus,none"] == pytest.approx((5 + 2 + 1) / 3)
    assert values["prometheus_coverage,none"] == 0.75
    assert values["bleu_coverage,none"] == 0.75
    # At the score ln 0.6, elsewhere ln 0.1: 5 -> 4.0, 2 -> 2.5; the blank answer has 1.
    assert values["prometheus_expected,none"] == pytest.approx((4.0 + 2.5 + 1) / 3)
    section = found["configs"]["careqa_open"]["metadata"]["healthcare"]
    assert "wording:pack@" in section["signatures"]["prometheus"]
    assert "bleu" in section["signatures"]
    assert section["judge"]["asked"] == 2
    assert section["reasons"]["blank_reference:prometheus"] == 1
    logged = found["samples"]["careqa_open"]
    assert "[RESULT] 5" in logged[0]["judge"][0]["text"]
    assert "judge" not in logged[0]["metrics"]
    json.dumps(logged)


def test_what_is_known_is_not_asked_again(tmp_path: Path) -> None:
    rows = open_rows(tmp_path, REFERENCES)
    with ScriptedJudge() as server:
        for _ in range(2):
            found = evaluate("careqa_open", ScriptedModel(ANSWERS), rows, metadata=options(server, tmp_path))
        assert sum(server.counts.values()) == 2
    assert found["results"]["careqa_open"]["prometheus,none"] == pytest.approx(8 / 3)


def test_a_judge_without_a_verdict_marks_the_mean(tmp_path: Path) -> None:
    rows = open_rows(tmp_path, REFERENCES)
    with ScriptedJudge(faults={"no_verdict": 1.0}) as server:
        more = options(server, tmp_path, judge_attempts="2")
        found = evaluate("careqa_open", ScriptedModel(ANSWERS), rows, metadata=more)
        assert sum(server.counts.values()) == 4
    values = found["results"]["careqa_open"]
    assert values["prometheus,none"] == 1.0  # the blank answer alone
    assert values["prometheus_coverage,none"] == 0.25
    section = found["configs"]["careqa_open"]["metadata"]["healthcare"]
    assert "2 of 2 verdicts are missing" in section["unusable"]["prometheus,none"]


def test_a_judge_that_goes_costs_its_scores_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = open_rows(tmp_path, REFERENCES)
    with ScriptedJudge() as server:

        class Ends(ScriptedModel):
            def generate_until(self, requests: list[Any]) -> list[Any]:
                server.__exit__(None, None, None)
                return super().generate_until(requests)

        more = options(server, tmp_path, judge_retries="0")
        found = evaluate("careqa_open", Ends(ANSWERS), rows, metadata=more)
        server.__enter__()
    values = found["results"]["careqa_open"]
    assert values["bleu_coverage,none"] == 0.75
    assert values["prometheus_coverage,none"] == 0.0
    assert math.isnan(values["prometheus,none"])
    section = found["configs"]["careqa_open"]["metadata"]["healthcare"]
    assert section["metric_errors"]["prometheus"]
    assert "the judge failed" in caplog.text


def test_a_judge_that_is_not_there_ends_the_run_before_the_model_is_asked(tmp_path: Path) -> None:
    rows, model = open_rows(tmp_path, REFERENCES), ScriptedModel(ANSWERS)
    with ScriptedJudge() as server:
        pass
    with pytest.raises(OptionError, match="no judge at"):
        evaluate("careqa_open", model, rows, metadata=options(server, tmp_path))
    with pytest.raises(OptionError, match="no/such/judge"):
        evaluate(
            "careqa_open", model, rows, metadata={"metrics": "bleu", "judge": "/no/such/judge", "judge_backend": "hf"}
        )
    assert model.seen == []


def test_credentialed_answers_are_not_sent_to_another_machine(tmp_path: Path) -> None:
    row = {"findings": "No effusion.", "impression": "Normal."}
    write_jsonl(tmp_path / "mimic_repsum.jsonl", [row])
    given = {"metrics": "bleu", "judge": "http://10.0.0.7:8000/v1"}
    with pytest.raises(OptionError, match="not on this machine"):
        evaluate("mimic_repsum", ScriptedModel(["Normal."]), tmp_path, metadata=given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"judge_preset": "paper"}, "there is no judge"),
        ({"judge": "a/b", "judge_preset": "best"}, "expected one of paper, reproducible"),
        ({"judge": "a/b", "judge_samples": "some"}, "whole number"),
        ({"judge": "http://x/v1", "judge_backend": "hf"}, "goes with the back end openai"),
        ({"judge": "a/b", "send_credentialed_texts_to_a_remote_judge": "maybe"}, "expected one of no, yes"),
    ],
)
def test_options_that_cannot_be_used(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Options.from_metadata(given)


def test_options_that_can() -> None:
    judge = Options.from_metadata({"judge": "a/b", "judge_backend": "hf", "judge_attempts": "3"}).for_judge
    assert judge is not None
    assert (judge.models, judge.kind, judge.settings.attempts) == (("a/b",), "hf", 3)
    assert Options.from_metadata({"judge": False}).for_judge is None
    server = Options.from_metadata({"judge": "http://127.0.0.1:1/v1", "judge_model": "m"}).for_judge
    assert server is not None
    assert (server.models, server.base_url) == (("m",), "http://127.0.0.1:1/v1")


def test_ranks_are_put_together() -> None:
    """Each rank saw a part: 1 of 20 and 1 of 10 failed, so 2 of 30, 6.7%."""

    def section(asked: int, failed: int) -> dict[str, Any]:
        found = section_of({"none": {"judge1": Tally(failed, asked)}}, 0.05)
        return {**found, "signatures": {"prometheus": "s"}, "reasons": {"no_verdict:prometheus": failed}}

    found = together([section(20, 1), {}, section(10, 1)])
    assert found["judge"]["failure_rate"] == pytest.approx(2 / 30)
    assert found["reasons"] == {"no_verdict:prometheus": 2}
    assert "2 of 30" in found["unusable"]["prometheus,none"]
    assert together([{}, {}]) == {}
