"""The tasks of Relaxed Perplexity through the harness's evaluator: numbers by hand, texts of every kind, files."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.replay import score_saved_run
from lm_eval_healthcare.relaxed_perplexity import Matrix
from lm_eval_healthcare.relaxed_perplexity.matrix_file import read
from scripted import ScriptedModel, evaluate
from support import results_of, samples_of, write_jsonl
from token_models import BigramModel

OPEN, OLAPH = "careqa_open_relaxed_perplexity", "olaph_relaxed_perplexity"
TABLE = {"aa": 0.25, "ab": 0.75, "ba": 0.5, "bb": 0.5, "?b": 0.1, "?a": 0.9}
SMALL = {
    "relaxed_samples": 2, "relaxed_keep": 2, "relaxed_length": 2, "relaxed_stride": 1, "relaxed_delimiter": "none",
}  # fmt: skip


def questions(folder: Path, *pairs: tuple[str, Any]) -> Path:
    lines = [json.dumps({"question": question, "answer": answer}) for question, answer in pairs]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "careqa_open.jsonl").write_text("\n".join(lines))
    return folder


def matrices(out: Any, task: str = OPEN) -> list[Matrix]:
    return [Matrix.from_response(json.loads(sample["resps"][0][0])) for sample in out["samples"][task]]


def section(out: Any, task: str = OPEN) -> dict[str, Any]:
    return out["configs"][task]["metadata"]["healthcare"]


def test_numbers_by_hand(tmp_path: Path) -> None:
    """The question ends in "?", the target is "b", the samples are "ba" and "bb"; stride 1 up to 2 tokens.

    After 0 tokens P(b|?) = 0.1. After 1 both samples begin with "b": P(b|b) = 0.5, once. After 2 tokens P(b|a) = 0.75
    for "ba" and P(b|b) = 0.5 for "bb", together 1.25. S = log(0.1 * 0.5 * 1.25) = log 0.0625 and
    N = 2 + 1, so RP = 0.0625^(-1/3). Any time: 0.1 + 0.5 + 1.25 = 1.85.
    """
    model = BigramModel(["ba", "bb"], TABLE)
    out = evaluate(OPEN, model, questions(tmp_path, ("Q?", "b")), metadata=SMALL)
    scores = out["results"][OPEN]
    assert scores["relaxed_perplexity,none"] == pytest.approx(0.0625 ** (-1 / 3))
    assert scores["log_relaxed_perplexity,none"] == pytest.approx(-math.log(0.0625) / 3)
    assert scores["log_relaxed_perplexity_median,none"] == pytest.approx(-math.log(0.0625) / 3)
    assert scores["relaxed_cross_entropy_sum,none"] == pytest.approx(-math.log(0.0625))
    assert scores["relaxed_cross_entropy_mean,none"] == pytest.approx(-math.log(0.0625) / 3)
    assert scores["relaxed_cross_entropy_any,none"] == pytest.approx(-math.log(1.85))
    assert scores["relaxed_nats_per_byte,none"] == pytest.approx(-math.log(0.0625) / 3)
    assert scores["relaxed_perplexity_coverage,none"] == 1.0
    (matrix,) = matrices(out)
    assert [(p.position, p.count) for p in matrix.prefixes] == [(0, 2), (1, 2), (2, 1), (2, 1)]
    # P(b|?) = 0.1 for the prefix "b"; "bb" and "ba" are equally likely after it.
    assert [p.log_p for p in matrix.prefixes] == pytest.approx([0, math.log(0.1), math.log(0.05), math.log(0.05)])
    assert matrix.texts == ("ba", "bb")


def test_the_corpus_is_a_ratio_of_sums(tmp_path: Path) -> None:
    """Two documents with one position each (n = 0): S = log 0.1 over N = 1, and log(0.9 * 0.75) over N = 2."""
    rows = questions(tmp_path, ("One?", "b"), ("Two?", "ab"))
    scores = evaluate(OPEN, BigramModel(["x"], TABLE), rows, metadata={**SMALL, "relaxed_length": 0})["results"][OPEN]
    assert scores["log_relaxed_perplexity,none"] == pytest.approx(-math.log(0.1 * 0.9 * 0.75) / 3)
    assert scores["relaxed_cross_entropy_sum,none"] == pytest.approx(-(math.log(0.1) + math.log(0.675)) / 2)
    assert isinstance(scores["relaxed_perplexity_stderr,none"], float)


def test_targets_by_list(tmp_path: Path) -> None:
    """Statements one by one: a document's cross-entropy is the mean of its statements', lists apart."""
    rows = [
        {"Question": "One?", "Free_form_answer": "ab", "Must_have": ["b", "a"], "Nice_to_have": []},
        {"Question": "Two?", "Free_form_answer": "", "Must_have": ["b"], "Nice_to_have": ["a", " "]},
    ]
    write_jsonl(tmp_path / "olaph" / "live_qa.jsonl", rows)
    out = evaluate(OLAPH, BigramModel(["x"], TABLE), tmp_path, metadata={**SMALL, "relaxed_length": 0})
    scores = out["results"][OLAPH]
    one, two = (-math.log(0.1) - math.log(0.9)) / 2, -math.log(0.1)
    assert scores["relaxed_cross_entropy_sum_must_have,none"] == pytest.approx((one + two) / 2)
    assert scores["relaxed_cross_entropy_sum_nice_to_have,none"] == pytest.approx(-math.log(0.9))
    assert scores["relaxed_cross_entropy_sum,none"] == pytest.approx(-math.log(0.9 * 0.75))
    assert scores["relaxed_cross_entropy_sum_must_have_coverage,none"] == 1.0
    assert scores["relaxed_cross_entropy_sum_nice_to_have_coverage,none"] == 0.5
    assert scores["relaxed_cross_entropy_sum_coverage,none"] == 0.5
    assert section(out, OLAPH)["reasons"] == {"no_nice_to_have": 1, "blank_reference": 1}
    assert section(out, OLAPH)["relaxed_perplexity"]["targets"] == {"answer": 1, "must_have": 3, "nice_to_have": 1}
    assert section(out, OLAPH)["breakdown"]["source"]["live_qa"][
        "relaxed_cross_entropy_mean_must_have"
    ] == pytest.approx((one + two) / 2)


def test_what_does_not_fit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # case b64
    """63 tokens fit: 2 of a completion, the target's and the end of the prompt; no document stops the others."""
    rows = questions(tmp_path, ("Q" * 100 + "?", "b" * 30), ("Short?", "b" * 70), ("Q?", "b"), ("Fits?", "b" * 60))
    model = BigramModel(["ba", "bb"], TABLE, max_length=64)
    with caplog.at_level(logging.WARNING):
        out = evaluate(OPEN, model, rows, metadata={**SMALL, "prompt": "pack"})
    first, too_long, short, fits = matrices(out)
    assert (first.question_tokens, first.targets[0].length) == (63 - 2 - 30, 30)
    assert first.context_cut > 70
    assert too_long.targets[0].reason == "target_too_long"
    assert (fits.question_tokens, fits.targets[0].reason) == (1, None)
    assert short.targets[0].reason is None
    assert all(len(before) + len(scored) <= 63 for before, scored in model.windows)
    scores = out["results"][OPEN]
    assert scores["relaxed_perplexity_coverage,none"] == 0.75
    assert section(out)["reasons"]["target_too_long"] == 1
    assert section(out)["reasons"]["context_cut"] == 3
    assert "prompts are too long for the model" in caplog.text


def test_an_empty_prompt_stands_on_the_prefix_token(tmp_path: Path) -> None:  # case b40
    """The first token of a text has a probability only after another one, which is recorded."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_text(
        "include: ../pack/careqa_open.yaml\ntask: mine\n"
        "class: !function lm_eval_healthcare.harness.relaxed.RelaxedPerplexityTask\n"
        "output_type: loglikelihood\ndoc_to_text: ''\n".replace("../pack", str(_pack() / "careqa"))
    )
    manager = task_manager(
        str(tmp_path / "tasks"),
        metadata={"data": str(questions(tmp_path / "rows", ("Q?", "b"))), "answers": "off", "prompt": "pack", **SMALL},
        include_defaults=False,
    )
    task = manager.load(["mine"])["tasks"]["mine"]
    task.config.description = ""
    from lm_eval import simple_evaluate

    model = BigramModel(["ba", "bb"], {**TABLE, ">b": 0.2})
    out = simple_evaluate(model=model, tasks=[task])
    assert section(out, "mine")["relaxed_perplexity"]["prefix_tokens"] == ["<bos>"]
    assert "prefix:<bos>" in section(out, "mine")["signatures"]["relaxed_perplexity"]
    assert matrices(out, "mine")[0].targets[0].log_p[0] == pytest.approx(math.log(0.2))


def _pack() -> Path:
    from lm_eval_healthcare import tasks_path

    return tasks_path()


def test_a_probability_of_zero_is_infinite_not_lost(tmp_path: Path) -> None:
    rows = questions(tmp_path, ("Q?", "b"), ("Q?", "ab"))
    out = evaluate(OPEN, BigramModel(["x"], {**TABLE, "?b": 0.0}), rows, metadata={**SMALL, "relaxed_length": 0})
    scores = out["results"][OPEN]
    assert scores["relaxed_perplexity,none"] == math.inf
    assert scores["relaxed_cross_entropy_mean,none"] == math.inf
    assert scores["log_relaxed_perplexity_median,none"] == math.inf
    assert scores["relaxed_perplexity_coverage,none"] == 1.0
    assert json.loads(out["samples"][OPEN][0]["resps"][0][0])["targets"][0]["log_p"] == [None]


def test_nan_costs_one_document(tmp_path: Path) -> None:
    rows = questions(tmp_path, ("Q?", "b"), ("Q?", "ab"))
    out = evaluate(OPEN, BigramModel(["x"], {**TABLE, "?b": -1.0}), rows, metadata={**SMALL, "relaxed_length": 0})
    scores = out["results"][OPEN]
    assert scores["log_relaxed_perplexity,none"] == pytest.approx(-math.log(0.9 * 0.75) / 2)
    assert scores["log_relaxed_perplexity_coverage,none"] == 0.5
    assert section(out)["reasons"]["nan_loglikelihood"] == 1


def test_a_probability_above_one_costs_one_document(tmp_path: Path) -> None:
    rows = questions(tmp_path, ("Q?", "b"), ("Q?", "ab"))
    out = evaluate(OPEN, BigramModel(["x"], {**TABLE, "?b": 1.5}), rows, metadata={**SMALL, "relaxed_length": 0})
    assert out["results"][OPEN]["log_relaxed_perplexity,none"] == pytest.approx(-math.log(0.9 * 0.75) / 2)
    assert section(out)["reasons"]["positive_loglikelihood"] == 1


def test_a_clamp_value_stands_for_zero(tmp_path: Path) -> None:  # the kind of case b40
    """A model that gives -9999 for the "b" after "?": a sum with it is minus infinity."""

    class Clamping(BigramModel):
        def log_p(self, before: str, text: str) -> float:
            return -9999.0 - len(text) if (before[-1:] + text).startswith("?b") else super().log_p(before, text)

    rows = questions(tmp_path, ("Q?", "b"), ("Q?", "bab"), ("Q?", "ab"))
    out = evaluate(OPEN, Clamping(["x"], TABLE), rows, metadata={**SMALL, "relaxed_length": 0})
    found = [matrix.targets[0].log_p[0] for matrix in matrices(out)]
    assert found == [-math.inf, -math.inf, pytest.approx(math.log(0.9 * 0.75))]


def test_a_servers_clamp_value_is_not_added_to_other_tokens() -> None:
    """The harness adds up what a server tells of each token: -1 and -9999 are minus infinity, -1 and -2 are -3."""
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    from lm_eval_healthcare.harness.relaxed_engines import _unclamped

    class TemplateAPI:
        parse_logprobs = staticmethod(LocalCompletionsAPI.parse_logprobs)

    def answer(*values: float | None) -> dict[str, Any]:
        told = {
            "token_logprobs": list(values), "top_logprobs": [{"a": 0.0}] * len(values), "tokens": ["a"] * len(values),
        }  # fmt: skip
        return {"choices": [{"index": 0, "logprobs": told}]}

    lm = TemplateAPI()
    with _unclamped(lm):
        (clamped,) = lm.parse_logprobs(outputs=answer(None, -1.0, -9999.0, -5.0), tokens=[[1, 2, 3]], ctxlens=[1])
        (plain,) = lm.parse_logprobs(outputs=answer(None, -1.0, -2.0, -5.0), tokens=[[1, 2, 3]], ctxlens=[1])
    assert clamped[0] == -math.inf
    assert plain[0] == -3.0
    assert "parse_logprobs" not in vars(lm)


def test_chat_completions_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    class TemplateAPI(BigramModel):
        pass

    class LocalChatCompletion(TemplateAPI):
        pass

    model = LocalChatCompletion(["ba"], TABLE)
    with pytest.raises(OptionError, match="chat completions tell no log-likelihoods"):
        evaluate(OPEN, model, questions(tmp_path, ("Q?", "b")), metadata=SMALL)
    assert not model.asked


def test_a_length_that_no_prompt_fits_beside_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"relaxed_length=1000: .* 63 tokens"):
        evaluate(
            OPEN, BigramModel(["ba"], TABLE, max_length=64), questions(tmp_path, ("Q?", "b")),
            metadata={**SMALL, "relaxed_length": "1000"},
        )  # fmt: skip


def test_all_samples_that_end_early_are_told(tmp_path: Path) -> None:
    out = evaluate(OPEN, BigramModel(["", "b"], TABLE), questions(tmp_path, ("Q?", "b")), metadata=SMALL)
    (matrix,) = matrices(out)
    assert matrix.positions == [0, 1]
    assert section(out)["reasons"] == {"all_samples_stopped_early": 1}
    # n_eff is 1: -(log 0.1 + log 0.5) / (1 + 1)
    assert out["results"][OPEN]["log_relaxed_perplexity,none"] == pytest.approx(-math.log(0.05) / 2)


def test_seeds_reach_only_who_takes_them(tmp_path: Path) -> None:
    """A server that always gets the same seed would write the same completion each time."""

    class TemplateAPI(BigramModel):
        pass

    rows = questions(tmp_path, ("Q?", "b"))
    server, local = TemplateAPI(["ba", "bb"], TABLE), BigramModel(["ba", "bb"], TABLE)
    for model in (server, local):
        evaluate(OPEN, model, rows, metadata={**SMALL, "relaxed_seed": 7, "relaxed_temperature": 0.8})
    assert [arguments.get("seed") for _, arguments in server.asked] == [7, 8]
    assert all("seed" not in arguments for _, arguments in local.asked)
    _, arguments = local.asked[0]
    assert arguments == {
        "until": [], "max_gen_toks": 10, "do_sample": True, "temperature": 0.8, "top_p": 0.9,
    }  # fmt: skip


def test_a_model_without_tokens_is_asked_in_words(tmp_path: Path) -> None:
    """Of "one two three" the first two words are taken; each word costs a nat. S = -1 at each of 3 positions, N = 3."""
    model = ScriptedModel(["one two three", "one more"], likelihood=lambda context, text: -float(len(text.split())))
    rows = questions(tmp_path, ("Q?", "fever"))
    out = evaluate(OPEN, model, rows, metadata={**SMALL, "relaxed_delimiter": "space", "relaxed_keep": 1})
    assert out["results"][OPEN]["relaxed_cross_entropy_sum,none"] == pytest.approx(3.0)
    assert out["results"][OPEN]["log_relaxed_perplexity,none"] == pytest.approx(1.0)
    assert matrices(out)[0].texts == ("one two", "one more")
    assert "unit:words" in section(out)["signatures"]["relaxed_perplexity"]


def test_under_use_cache_nothing_is_asked_twice(tmp_path: Path) -> None:
    rows, cache = questions(tmp_path / "rows", ("One?", "b"), ("Two?", "ab")), str(tmp_path / "cache")
    first = BigramModel(["ba", "bb"], TABLE)
    out = evaluate(OPEN, first, rows, metadata=SMALL, use_cache=cache)
    second = BigramModel(["aa"], TABLE)
    again = evaluate(OPEN, second, rows, metadata=SMALL, use_cache=cache)
    assert (second.asked, second.windows) == ([], [])
    assert [sample["resps"] for sample in again["samples"][OPEN]] == [s["resps"] for s in out["samples"][OPEN]]
    third = BigramModel(["ba", "bb"], TABLE)
    evaluate(OPEN, third, rows, metadata={**SMALL, "relaxed_seed": 5}, use_cache=cache)
    assert third.asked


def test_equal_documents_are_computed_once(tmp_path: Path) -> None:
    model = BigramModel(["ba", "bb"], TABLE)
    out = evaluate(OPEN, model, questions(tmp_path, ("Q?", "b"), ("Q?", "b")), metadata=SMALL)
    assert len(model.asked) == 2
    assert out["samples"][OPEN][0]["resps"] == out["samples"][OPEN][1]["resps"]


def test_chat_template_as_the_run_says_or_never(tmp_path: Path) -> None:
    rows = questions(tmp_path, ("Q?", "b"))
    for option, chat in (("on", True), ("off", False)):
        model = BigramModel(["ba", "bb"], TABLE)
        out = evaluate(OPEN, model, rows, metadata={**SMALL, "relaxed_chat_template": option}, apply_chat_template=True)
        assert model.asked[0][0].endswith("[assistant]\n") is chat
        assert f"chat:{option}" in section(out)["signatures"]["relaxed_perplexity"]


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("relaxed_samples", "0", "expected 1 or more"),
        ("relaxed_samples", "many", "expected a whole number"),
        ("relaxed_stride", "0", "expected 1 or more"),
        ("relaxed_top_p", "1.5", "at most 1"),
        ("relaxed_temperature", "0", "above 0"),
        ("relaxed_order", "likely", "prefix, completion"),
        ("relaxed_end", "ignore", "use relaxed_end=stop"),
        ("relaxed_engine", "vllm", "use auto, generic"),
        ("relaxed_engine", "fast", "expected one of auto"),
        ("relaxed_memory", "-1", "GiB above 0"),
        ("relaxed_readings", "relaxed_perplexty", "did you mean relaxed_perplexity"),
        ("relaxed_chat_template", "maybe", "expected one of on, off"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, option: str, value: str, told: str) -> None:
    with pytest.raises(OptionError, match=told) as caught:
        evaluate(OPEN, BigramModel(["ba"], TABLE), questions(tmp_path, ("Q?", "b")), metadata={**SMALL, option: value})
    assert option in str(caught.value)


def test_readings_on_request(tmp_path: Path) -> None:
    rows = questions(tmp_path, ("Q?", "b"))
    names = "relaxed_perplexity_weighted+relaxed_cross_entropy_any_sampled"
    scores = evaluate(
        OPEN, BigramModel(["ba", "bb"], TABLE), rows, metadata={**SMALL, "relaxed_readings": names}
    )["results"][OPEN]  # fmt: skip
    # Equally likely prefixes at 2 tokens: (0.75 + 0.5) / 2 instead of 1.25.
    assert scores["relaxed_perplexity_weighted,none"] == pytest.approx((0.1 * 0.5 * 0.625) ** (-1 / 3))
    assert scores["relaxed_cross_entropy_any_sampled,none"] == pytest.approx(-math.log(0.1 + 0.5 + 0.625))
    assert "relaxed_perplexity,none" not in scores


def test_any_open_ended_task_in_five_lines(tmp_path: Path) -> None:
    (tmp_path / "mts_relaxed.yaml").write_text(
        f"include: {_pack() / 'mts_dialog' / 'mts_dialog.yaml'}\n"
        "task: mts_relaxed\n"
        "class: !function lm_eval_healthcare.harness.relaxed.RelaxedPerplexityTask\n"
        "tag: [mine]\n"
        "output_type: loglikelihood\n"
    )
    from lm_eval import simple_evaluate

    manager = task_manager(
        str(tmp_path), metadata={"data": "sample", "answers": "off", **SMALL}, include_defaults=False
    )
    out = simple_evaluate(model=BigramModel(["ba", "bb"]), tasks=["mts_relaxed"], task_manager=manager, limit=2)
    # Every character has probability 1/2: at 2 tokens two prefixes are added up, which is log 2 more.
    (first, _) = matrices(out, "mts_relaxed")
    length = first.targets[0].length
    expected = -(3 * length * math.log(0.5) + math.log(2))
    assert out["samples"]["mts_relaxed"][0]["relaxed_cross_entropy_sum"] == pytest.approx(expected)


def test_a_column_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        f"include: {_pack() / 'careqa' / 'careqa_open_relaxed_perplexity.yaml'}\n"
        "task: mine\nhealthcare_changes:\n  targets: {facts: Statements}\n"
    )
    manager = task_manager(str(tmp_path), metadata={"data": "sample", "answers": "off"}, include_defaults=False)
    with pytest.raises(OptionError, match="no column Statements"):
        manager.load(["mine"])


def test_saved_answers_give_the_same_numbers(tmp_path: Path) -> None:
    rows = questions(tmp_path / "rows", ("One?", "b"), ("Two?", "ab"), ("Three?", "ba"))
    metadata = {"data": str(rows), "answers": str(tmp_path / "answers"), **SMALL}
    from lm_eval import simple_evaluate

    manager = task_manager(metadata=metadata, include_defaults=False)
    model = BigramModel(["ba", "bb"], TABLE)
    out = simple_evaluate(model=model, tasks=[OPEN], task_manager=manager, samples={OPEN: [0, 2]})
    (folder,) = (tmp_path / "answers").iterdir()
    output, again = score_saved_run(folder, tmp_path / "again", {})
    for scores in (again["results"][OPEN], results_of(output)["results"][OPEN]):
        assert scores == pytest.approx(out["results"][OPEN], nan_ok=True)
    assert section(again)["relaxed_perplexity"]["samples"] == 2
    (path,) = output.glob("**/relaxed_*.parquet")
    assert [row.doc_id for row in read(path)] == [0, 2]
    assert [sample["doc_id"] for sample in samples_of(output, OPEN)] == [0, 2]


def test_credentialed_texts_stay_out_of_logs_and_matrices(tmp_path: Path) -> None:
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker

    (tmp_path / "mine.yaml").write_text(
        f"include: {_pack() / 'mimic' / 'mimic_repsum.yaml'}\ntask: mine\n"
        "class: !function lm_eval_healthcare.harness.relaxed.RelaxedPerplexityTask\noutput_type: loglikelihood\n"
    )
    found = {}
    for keep in ("no", "yes"):
        metadata = {"data": "sample", "answers": str(tmp_path / keep), "keep_text": keep, **SMALL}
        manager = task_manager(str(tmp_path), metadata=metadata, include_defaults=False)
        model = BigramModel(["effusion seen", "no change"])
        found[keep] = simple_evaluate(model=model, tasks=["mine"], task_manager=manager, log_samples=True, limit=2)
        tracker = EvaluationTracker(output_path=str(tmp_path / f"out_{keep}"))
        tracker.general_config_tracker.model_name_sanitized = "toy"
        tracker.save_results_aggregated(dict(found[keep]), None)
    assert found["no"]["results"]["mine"] == pytest.approx(found["yes"]["results"]["mine"], nan_ok=True)
    texts = [
        text for sample in found["yes"]["samples"]["mine"] for text in (sample["target"][:30], sample["target"][30:60])
    ]
    texts = [text for text in texts if text]
    for text in [*texts, "effusion seen"]:
        assert text not in json.dumps(found["no"]["samples"], ensure_ascii=False)
    assert not list((tmp_path / "no").rglob("*.jsonl"))
    (path,) = (tmp_path / "out_no").rglob("*.parquet")
    assert [row.doc_id for row in read(path)] == [0, 1]
    content = path.read_bytes()
    assert not any(text.encode() in content for text in texts)


def test_matrices_that_cannot_be_written_cost_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from lm_eval.loggers import EvaluationTracker

    out = evaluate(OPEN, BigramModel(["ba", "bb"], TABLE), questions(tmp_path, ("Q?", "b")), metadata=SMALL)
    (tmp_path / "out" / "toy").mkdir(parents=True)
    tracker = EvaluationTracker(output_path=str(tmp_path / "out"))
    tracker.general_config_tracker.model_name_sanitized = "toy"
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr("os.replace", _full_disk)
        tracker.save_results_aggregated(dict(out), None)
    assert list((tmp_path / "out" / "toy").glob("results_*.json"))
    assert not list((tmp_path / "out" / "toy").glob("*.parquet"))
    assert "the matrices of careqa_open_relaxed_perplexity are not written" in caplog.text


def _full_disk(*args: Any) -> None:
    raise OSError(28, "No space left on device")


def test_hostile_texts(tmp_path: Path) -> None:
    """Whatever stands in a question, an answer or a completion: a number, or a reason."""
    texts = ["", "\x00\x00", "a\ud800b", "…" * 300, "<|endoftext|></s>", "שלום", "a" * 50_000, '{"tokens": null}']
    rows = questions(tmp_path, *[(f"Q {text.encode('utf-8', 'replace').decode()[:200]}?", text) for text in texts[2:]])
    out = evaluate(OPEN, BigramModel(texts, TABLE), rows, metadata={**SMALL, "relaxed_length": 4})
    scores = out["results"][OPEN]
    assert scores["log_relaxed_perplexity_coverage,none"] > 0.8
    assert math.isfinite(scores["log_relaxed_perplexity,none"])
    json.dumps(out["samples"], default=str).encode()
