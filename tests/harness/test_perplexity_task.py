"""The perplexity tasks through the harness's evaluator: numbers by hand, texts of every kind, files and replays."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.prompts import HARNESS_TASKS
from lm_eval_healthcare.harness.replaced import replaced_yaml
from lm_eval_healthcare.harness.replay import score_saved_run
from scripted import evaluate, open_rows
from support import results_of, samples_of, write_jsonl
from token_models import CharacterModel

ALONE, AFTER = "careqa_open_perplexity", "careqa_open_conditional_perplexity"


def test_numbers_by_hand(tmp_path: Path) -> None:
    """A nat a character. "two words" has 9 characters and bytes and 2 words, "naïve" 5 characters, 6 bytes and 1 word.

    Words: 14 nats / 3; bytes: 14 / 15. Residuals for words: 9 - 2 * 14/3 = -1/3 and 5 - 14/3 = 1/3, so the error of the
    ratio is sqrt(2/1 * 2/9) / 3 = 2/9, that of the perplexity e^(14/3) * 2/9.
    """
    out = evaluate(ALONE, CharacterModel(), open_rows(tmp_path, ["two words", "naïve"]))
    scores = out["results"][ALONE]
    assert scores["word_perplexity,none"] == pytest.approx(math.exp(14 / 3))
    assert scores["word_perplexity_stderr,none"] == pytest.approx(math.exp(14 / 3) * 2 / 9)
    assert scores["byte_perplexity,none"] == pytest.approx(math.exp(14 / 15))
    assert scores["nats_per_byte,none"] == pytest.approx(14 / 15)
    assert scores["bits_per_byte,none"] == pytest.approx(14 / 15 / math.log(2))
    for name in ("word_perplexity", "byte_perplexity", "bits_per_byte", "nats_per_byte"):
        assert scores[f"{name}_coverage,none"] == 1.0
        assert isinstance(scores[f"{name}_stderr,none"], float)
        assert out["higher_is_better"][ALONE][name] is False
    assert out["n-shot"][ALONE] == 0


def test_a_long_reference_is_scored_whole(tmp_path: Path) -> None:  # case b39
    """6,000 words, 8,192 tokens of a quarter of a nat: exp(2048 / 6000); a cut text would give exp(512 / 6000)."""
    reference = " ".join(["x"] * 5999) + " " + "y" * 8
    assert len(reference) == 12_006
    model = CharacterModel(max_length=2048, cost=2048 / 12_006)
    scores = evaluate(ALONE, model, open_rows(tmp_path, [reference, reference]))["results"][ALONE]
    assert scores["word_perplexity,none"] == pytest.approx(1.406822, abs=1e-6)
    assert sum(len(scored) for _, scored in model.windows) == 12_006


def test_the_published_denominator(tmp_path: Path) -> None:  # case b39
    """1,500 words over 2,048 nats."""
    reference = " ".join(["a"] * 1500)
    model = CharacterModel(max_length=512, cost=2048 / len(reference))
    scores = evaluate(ALONE, model, open_rows(tmp_path, [reference]))["results"][ALONE]
    assert scores["word_perplexity,none"] == pytest.approx(3.917029, abs=1e-6)


def test_overflow_is_reported_not_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """5,000 nats a word."""
    model = CharacterModel(cost=1000.0)
    with caplog.at_level(logging.WARNING):
        out = evaluate(ALONE, model, open_rows(tmp_path, ["abcde", "abcdefghij", "vwxyz"]))
    scores = out["results"][ALONE]
    assert scores["word_perplexity,none"] == math.inf
    assert scores["nats_per_byte,none"] == pytest.approx(1000.0)
    assert scores["bits_per_byte,none"] == pytest.approx(1442.695, abs=1e-3)
    section = out["configs"][ALONE]["metadata"]["healthcare"]
    assert section["reasons"]["extreme_perplexity"] == 3
    assert section["perplexity"]["extreme"] == ["byte_perplexity", "word_perplexity"]
    assert "word_perplexity, byte_perplexity above 1e+04" in caplog.text
    assert "'<bos>'" in caplog.text


def test_an_ordinary_value_is_not_flagged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = evaluate(ALONE, CharacterModel(cost=0.5), open_rows(tmp_path, ["two words", "three more words"]))
    assert "extreme_perplexity" not in out["configs"][ALONE]["metadata"]["healthcare"]["reasons"]
    assert "above" not in caplog.text


@pytest.mark.parametrize("task", [ALONE, AFTER])
def test_blank_references_are_counted_not_scored(tmp_path: Path, task: str) -> None:
    rows = open_rows(tmp_path, ["abcd", "", None, " \n", "abcd efgh"])
    out = evaluate(task, CharacterModel(max_length=1000), rows)
    scores = out["results"][task]
    delimiter = 2 if task == AFTER else 0  # the blank before each of two answers costs a nat and counts as no byte
    assert scores["nats_per_byte,none"] == pytest.approx((13 + delimiter) / 13)
    assert scores["word_perplexity_coverage,none"] == pytest.approx(2 / 5)
    assert out["configs"][task]["metadata"]["healthcare"]["reasons"] == {"blank_reference": 3}


def test_no_scorable_reference_at_all(tmp_path: Path) -> None:
    scores = evaluate(ALONE, CharacterModel(), open_rows(tmp_path, ["", " "]))["results"][ALONE]
    assert math.isnan(scores["word_perplexity,none"])
    assert scores["word_perplexity_coverage,none"] == 0.0


def test_the_model_sees_no_question(tmp_path: Path) -> None:
    model = CharacterModel()
    out = evaluate(
        ALONE, model, open_rows(tmp_path, ["abc", "de"]), num_fewshot=3, apply_chat_template=True,
        system_instruction="Be brief.",
    )  # fmt: skip
    assert sorted(model.decode(before) + model.decode(scored) for before, scored in model.windows) == [
        "<bos>abc", "<bos>de",
    ]  # fmt: skip
    assert out["configs"][ALONE]["metadata"]["healthcare"]["prompt"] == "none"


def test_the_prompt_is_that_of_the_open_ended_task(tmp_path: Path) -> None:
    rows = [{"question": f"Question {i}?", "answer": f"Answer {i}."} for i in range(4)]
    write_jsonl(tmp_path / "careqa_open" / "test.jsonl", rows[:2])
    write_jsonl(tmp_path / "careqa_open" / "train.jsonl", rows[2:])
    for kwargs in ({}, {"num_fewshot": 2}, {"apply_chat_template": True}, {"system_instruction": "Be brief."}):
        prompts = {}
        for task in ("careqa_open", AFTER):
            out = evaluate(task, CharacterModel(max_length=3000), tmp_path, metadata={"metrics": "bleu"}, **kwargs)
            prompts[task] = [sample["arguments"][0] for sample in out["samples"][task]]
        for (generated, _), (conditional, answer) in zip(*prompts.values(), strict=True):
            assert conditional == generated
            chat = "apply_chat_template" in kwargs
            assert answer in ({"Answer 0.", "Answer 1."} if chat else {" Answer 0.", " Answer 1."})
            assert ("[assistant]" in conditional) is chat


def test_a_cut_prompt_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A window of 64 takes 63 tokens. The description alone is longer, so every prompt is cut."""
    answers = ["abcd", "abcdefgh"]
    model = CharacterModel(max_length=64)
    with caplog.at_level(logging.WARNING):
        out = evaluate(AFTER, model, open_rows(tmp_path, answers))
    cuts = []
    for sample, answer in zip(out["samples"][AFTER], answers, strict=True):
        prompt, continuation = sample["arguments"][0]
        assert continuation == " " + answer
        assert sample["tokens"] == len(answer) + 1
        assert sample["loglikelihood"] == -len(answer) - 1
        assert sample["context_tokens_cut"] == len(prompt) - (63 - len(answer) - 1)
        cuts.append(sample["context_tokens_cut"])
    section = out["configs"][AFTER]["metadata"]["healthcare"]
    assert section["reasons"]["context_cut"] == 2
    assert section["perplexity"] == {"prefix_tokens": [], "largest_context_cut": max(cuts), "extreme": []}
    assert f"they lost up to {max(cuts)} tokens" in caplog.text


def test_what_the_files_say(tmp_path: Path) -> None:
    """The harness aggregates only the metrics; the log holds more, and pairs as the harness's own tasks have them."""
    out = evaluate(ALONE, CharacterModel(), open_rows(tmp_path, ["two words", "abc"]))
    sample = out["samples"][ALONE][0]
    assert sample["word_perplexity"] == (-9.0, 2)
    assert sample["byte_perplexity"] == sample["bits_per_byte"] == sample["nats_per_byte"] == (-9.0, 9)
    assert (sample["loglikelihood"], sample["tokens"], sample["context_tokens_cut"]) == (-9.0, 9, 0)
    assert "tokens" not in sample["metrics"]
    assert {key.split(",")[0] for key in out["results"][ALONE]} & {"loglikelihood", "tokens"} == set()
    section = out["configs"][ALONE]["metadata"]["healthcare"]
    assert section["perplexity"]["prefix_tokens"] == ["<bos>"]
    assert "prefix:<bos>" in section["signatures"]["word_perplexity"]
    assert json.loads(json.dumps(section)) == section
    assert out["configs"][ALONE].get("generation_kwargs") is None


def test_of_several_references_the_first_counts(tmp_path: Path) -> None:
    task = task_manager(metadata={"data": str(open_rows(tmp_path, ["abc"]))}, include_defaults=False).load([ALONE])
    task = task["tasks"][ALONE]
    task.config.doc_to_target = lambda doc: [None, "first", "second"]
    assert task.reference({}) == "first"
    task.config.doc_to_target = lambda doc: []
    assert task.reference({}) == ""


def test_a_nan_from_the_model_is_no_score(tmp_path: Path) -> None:
    class Faulty(CharacterModel):
        def _loglikelihood_tokens(self, requests: Any, **kwargs: Any) -> Any:
            found = super()._loglikelihood_tokens(requests, **kwargs)
            return [(math.nan, False) if len(r[2]) == 3 else f for r, f in zip(requests, found, strict=True)]

    out = evaluate(ALONE, Faulty(), open_rows(tmp_path, ["abc", "abcd"]))
    assert out["results"][ALONE]["nats_per_byte,none"] == 1.0
    assert out["results"][ALONE]["nats_per_byte_coverage,none"] == 0.5
    assert out["configs"][ALONE]["metadata"]["healthcare"]["reasons"] == {"nan_loglikelihood": 1}


def test_predict_only(tmp_path: Path) -> None:
    out = evaluate(ALONE, CharacterModel(), open_rows(tmp_path, ["abc", "abcd"]), predict_only=True)
    assert out["samples"][ALONE][0]["resps"] == [[(-3.0, 3, 0, "<bos>")]]


def test_reasoning_switched_on_is_refused_before_the_model_runs(tmp_path: Path) -> None:
    model = CharacterModel()
    model.enable_thinking = True  # type: ignore[attr-defined]
    rows = open_rows(tmp_path, ["abc"])
    with pytest.raises(OptionError, match="enable_thinking=False"):
        evaluate(AFTER, model, rows, apply_chat_template=True)
    assert model.calls == []
    evaluate(ALONE, model, rows, apply_chat_template=True)  # no prompt, nothing to refuse


@pytest.mark.parametrize("task", [ALONE, AFTER])
def test_saved_answers_give_the_same_scores(tmp_path: Path, task: str) -> None:
    rows = open_rows(tmp_path / "rows", ["two words", "", "abc", "two words", "x" * 90])
    model = CharacterModel(cost=0.7)
    out = evaluate(task, model, rows, metadata={"answers": str(tmp_path / "answers")})
    (folder,) = (tmp_path / "answers").iterdir()
    saved = [json.loads(line) for line in (folder / f"{task}.jsonl").read_text("utf-8").splitlines()]
    assert {request["request_type"] for request in saved} == {"answer_loglikelihood"}
    _, again = score_saved_run(folder, tmp_path / "again", {})
    same = ("results", "higher_is_better", "n-samples")
    assert {key: again[key][task] for key in same} == {key: out[key][task] for key in same}
    was, now = (found["configs"][task]["metadata"]["healthcare"] for found in (out, again))
    for key in ("reasons", "perplexity", "signatures", "prompt"):
        assert now[key] == was[key]
    assert results_of(tmp_path / "again")["results"][task]["nats_per_byte,none"] > 0
    assert [sample["tokens"] for sample in samples_of(tmp_path / "again", task)][1] == 0


def test_a_user_s_own_task(tmp_path: Path) -> None:
    """A YAML of a user that includes the pack's, with another reference."""
    (tmp_path / "mine.yaml").write_text(
        f"include: {json.dumps(str(tasks_path() / 'careqa' / 'careqa_open_perplexity.yaml'))}\n"
        "task: mine\ndoc_to_target: '{{answer}}!'\n",
        encoding="utf-8",
    )
    manager = task_manager(
        include_path=tmp_path, metadata={"data": str(open_rows(tmp_path, ["abc"]))}, include_defaults=False
    )
    task = manager.load(["mine"])["tasks"]["mine"]
    assert task.reference(task.eval_docs[0]) == "abc!"


def test_which_task_of_the_harness_is_replaced() -> None:
    facts = {e.name: facts_from_config(e.config) for e in catalogue(tasks_path()) if e.kind == "task"}
    assert replaced_yaml(facts["medtext"]) == "medtext/medtext.yaml"
    assert replaced_yaml(facts["medtext_perplexity"]) == "medtext/medtext_perplexity.yaml"
    assert replaced_yaml(facts["careqa_open_perplexity"]) == "careqa/careqa_open_perplexity.yaml"
    assert replaced_yaml(facts["medtext_conditional_perplexity"]) is None
    assert (HARNESS_TASKS / "medtext" / "medtext_perplexity.yaml").is_file()


def test_the_tag_names_both_forms() -> None:
    manager = task_manager(metadata={"data": "sample"}, include_defaults=False)
    tagged = manager.task_index["healthcare_perplexity"].tags
    assert {ALONE, AFTER, "medtext_perplexity", "medtext_conditional_perplexity"} <= tagged
    assert tagged <= manager.task_index["healthcare"].tags


@pytest.mark.parametrize("keep", ["no", "yes"])
def test_texts_of_credentialed_data_stay_out_of_the_log(keep: str) -> None:
    """Numbers stay, also in the log; the texts of prompts and references do not."""
    task = "mimic_repsum_conditional_perplexity"
    out = evaluate(task, CharacterModel(max_length=4000), metadata={"keep_text": keep})
    manager = task_manager(metadata={"data": "sample", "keep_text": "yes"}, include_defaults=False)
    rows = manager.load([task])["tasks"][task].eval_docs
    log = json.dumps(out["samples"][task])
    assert {row["impression"][:20] in log for row in rows} == {keep == "yes"}
    assert [s["tokens"] for s in out["samples"][task]] == [len(row["impression"]) + 1 for row in rows]
    assert out["results"][task]["nats_per_byte_coverage,none"] == 1.0
