"""What is measured, after which prefixes, and what is kept of it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_healthcare.relaxed_perplexity import Matrix, Prefix, Sample, Settings, Target, choose, measure
from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine, Job, Question
from lm_eval_healthcare.relaxed_perplexity.estimator import read
from lm_eval_healthcare.relaxed_perplexity.prefixes import UnknownPrefixError
from lm_eval_healthcare.relaxed_perplexity.settings import HELP

ZERO = -math.inf
A, B = -0.5, -1.25


def sample(text: str, *steps: float) -> Sample:
    """A completion of one token a character, and log P of each."""
    return Sample(tuple(map(ord, text)), np.concatenate([[0.0], np.cumsum(steps)]))


def chosen(samples: Sequence[Sample], **settings: Any) -> list[tuple[str, float, int]]:
    """The prefixes as text, with their log P and how many samples begin with them."""
    prefixes = choose(samples, Settings(**{"length": 2, "stride": 1, **settings}))
    assert [prefix.position for prefix in prefixes] == sorted(prefix.position for prefix in prefixes)
    text = ["".join(map(chr, samples[p.sample].tokens[: p.position])) for p in prefixes]
    return [(words, prefix.log_p, prefix.count) for words, prefix in zip(text, prefixes, strict=True)]


def test_equal_prefixes_are_there_once() -> None:
    samples = [sample("xy", -1, -4), sample("xz", -1, -1), sample("xy", -1, -4), sample("wz", -2, -1)]
    assert chosen(samples) == [("", 0, 4), ("x", -1, 3), ("w", -2, 1), ("xz", -2, 1), ("wz", -3, 1), ("xy", -5, 2)]
    assert chosen(samples, keep=1) == [("", 0, 4), ("x", -1, 3), ("xz", -2, 1)]
    assert chosen(samples, keep=2) == [("", 0, 4), ("x", -1, 3), ("w", -2, 1), ("xz", -2, 1), ("wz", -3, 1)]
    assert chosen(samples, keep=None) == chosen(samples)


def test_completions_that_ended_leave_the_later_positions() -> None:
    samples = [sample("x", -1), sample(""), sample("xy", -1, -1), sample("z", -5)]
    assert chosen(samples) == [("", 0, 4), ("x", -1, 2), ("z", -5, 1), ("xy", -2, 1)]
    assert chosen([sample("x", -1), sample("")]) == [("", 0, 2), ("x", -1, 1)]
    assert chosen([sample(""), sample("")]) == [("", 0, 2)]
    assert chosen(samples, length=5, stride=2) == [("", 0, 4), ("xy", -2, 1)]


def test_order_by_the_prefix_or_by_the_whole_completion() -> None:
    # "a" begins the likeliest prefix of one token, "b" the likeliest completion, and so does its second sample.
    samples = [sample("ax", -1, -9), sample("bx", -2, -7), sample("by", -2, -1), sample("cx", -3, -5)]
    assert [text for text, *_ in chosen(samples)] == ["", "a", "b", "c", "by", "cx", "bx", "ax"]
    by_completion = chosen(samples, order="completion")
    assert by_completion == [
        ("", 0, 4), ("b", -2, 2), ("c", -3, 1), ("a", -1, 1),
        ("by", -3, 1), ("cx", -8, 1), ("bx", -9, 1), ("ax", -10, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("order", ["prefix", "completion"])
def test_equally_likely_prefixes_keep_the_order_of_the_samples(order: str) -> None:
    samples = [sample("qx", -1, -1), sample("ax", -1, -1), sample("zx", -1, -1), sample("ax", -1, -1)]
    assert chosen(samples, order=order, keep=2) == [
        ("", 0, 4),
        ("q", -1, 1),
        ("a", -1, 2),
        ("qx", -2, 1),
        ("ax", -2, 2),
    ]
    assert [text for text, *_ in chosen(samples[::-1], order=order, keep=2)] == ["", "a", "z", "ax", "zx"]


def test_prefixes_that_the_model_holds_impossible_come_last() -> None:
    samples = [sample("xy", ZERO, -1), sample("ab", -700, ZERO), sample("cd", -900, -1)]
    assert chosen(samples, length=1) == [("", 0, 3), ("a", -700, 1), ("c", -900, 1), ("x", ZERO, 1)]


def test_log_probabilities_that_are_needed_must_be_known() -> None:
    unknown = [Sample((1, 2), np.array([0.0, np.nan, -2.0]))]
    assert choose(unknown, Settings(length=2, stride=2)) == [Prefix(0, 0, 0.0, 1), Prefix(2, 0, -2.0, 1)]
    for order in ("prefix", "completion"):
        with pytest.raises(UnknownPrefixError, match="prefix of 1 token"):
            choose(unknown, Settings(length=2, stride=1, order=order))
    with pytest.raises(ValueError, match=r"log_p of shape \(2,\) for 2 tokens"):
        Sample((1, 2), np.array([0.0, -1.0]))


answers = st.lists(st.text("ab", max_size=6), min_size=1, max_size=7)
ways = st.fixed_dictionaries(
    {"stride": st.integers(1, 3), "length": st.integers(0, 6), "keep": st.none() | st.integers(1, 4)}
)


def table_sample(text: str) -> Sample:
    """A completion under a model for which "a" costs A and "b" costs B; sums are not rounded, so that ties are ties."""
    return sample(text, *(A if letter == "a" else B for letter in text))


@settings(deadline=None)
@given(answers, ways)
def test_choice_against_a_plain_search(texts: list[str], way: dict[str, Any]) -> None:
    samples = [table_sample(text) for text in texts]
    found = chosen(samples, **way)
    expected = [("", len(texts))]
    for position in range(way["stride"], way["length"] + 1, way["stride"]):
        there = [text[:position] for text in texts if len(text) >= position]
        likely = sorted(dict.fromkeys(there), key=lambda text: text.count("b"))
        expected += [(text, there.count(text)) for text in likely[: way["keep"]]]
    assert [(text, count) for text, _, count in found] == expected
    assert [value for _, value, _ in found] == [text.count("a") * A + text.count("b") * B for text, _ in expected]


class Scripted(Engine):
    """Gives what it was told to give, in the order of the questions."""

    name = "scripted"

    def __init__(self, samples: list[list[Sample]], without: float | None = None) -> None:
        self.samples, self.without, self.jobs = samples, without, list[Job]()

    def sample(self, questions: Sequence[Question], settings: Settings) -> list[list[Sample]]:
        return self.samples

    def score(self, jobs: Sequence[Job]) -> list[np.ndarray]:
        self.jobs = list(jobs)
        return [
            np.array([[self._value(job, target, prefix) for prefix in job.prefixes] for target in job.question.targets])
            for job in jobs
        ]

    def _value(self, job: Job, target: tuple[int, ...], prefix: Prefix) -> float:
        """A number that tells question, prefix and target apart."""
        if target[0] == self.without:
            return math.nan
        return -0.5 * sum(target) - job.question.tokens[0] - 0.01 * sum(job.prefix_tokens(prefix))


def one_matrix(texts: Sequence[str], **settings: Any) -> Matrix:
    engine = Scripted([[table_sample(text) for text in texts]])
    question = Question((3,), ((1, 2), (4,)), seed=11)
    (matrix,) = measure(engine, [question], Settings(**settings), target_bytes=[[5, 6]])
    return matrix


def test_measuring_puts_the_parts_together() -> None:
    samples = [[table_sample("ab"), table_sample("a")], [table_sample("")]]
    questions = [Question((5, 6, 7), ((1, 2), (4,)), seed=21), Question((9,), ((8, 8, 8),), seed=22)]
    settings = Settings(length=2, stride=1)
    first, second = measure(
        Scripted(samples), questions, settings, target_bytes=[[10, 20], [30]], decode=lambda t: "".join(map(chr, t))
    )
    assert first.prefixes == (Prefix(0, 0, 0.0, 2), Prefix(1, 0, -0.5, 2), Prefix(2, 0, -1.75, 1))
    assert (first.lengths, first.log_p_samples) == ((2, 1), (-1.75, -0.5))
    assert (first.seed, first.question_tokens, first.engine) == (21, 3, "scripted")
    assert first.texts == ("ab", "a")
    # "a" is 97 and "b" 98: 0, 0.97 and 1.95 for the prefixes; 1.5 and 2 for the targets, 5 for the question
    assert first.targets[0].log_p == pytest.approx([-6.5, -7.47, -8.45])
    assert first.targets[1].log_p == pytest.approx([-7.0, -7.97, -8.95])
    assert [(target.length, target.bytes, target.reason) for target in first.targets] == [(2, 10, None), (1, 20, None)]
    assert second.prefixes == (Prefix(0, 0, 0.0, 1),)
    assert (second.lengths, second.question_tokens, second.texts) == ((0,), 1, ("",))
    assert second.targets[0].log_p == pytest.approx([-21.0])


def test_values_that_the_model_did_not_give_are_missing_not_zero() -> None:
    unknown = Sample((97, 98), np.array([0.0, np.nan, -2.0]))
    engine = Scripted([[table_sample("ab")], [unknown]], without=4)
    questions = [Question((5,), ((1, 2), (4,))), Question((9,), ((8,),))]
    first, second = measure(engine, questions, Settings(length=2, stride=1), target_bytes=[[1, 1], [1]])
    assert [target.reason for target in first.targets] == [None, "nan_loglikelihood"]
    assert [len(target.log_p) for target in first.targets] == [3, 0]
    assert [target.reason for target in second.targets] == ["nan_loglikelihood"]
    assert math.isfinite(read(first, 0, n=2, stride=1)["relaxed_perplexity"])
    assert math.isnan(read(first, 1, n=2, stride=1)["relaxed_perplexity"])
    assert math.isnan(read(second, 0, n=2, stride=1)["relaxed_perplexity"])
    for matrix in (first, second):
        assert Matrix.from_response(json.loads(json.dumps(matrix.as_response()))).as_response() == matrix.as_response()


def test_scores_of_the_wrong_shape_are_not_stored() -> None:
    class Short(Scripted):
        def score(self, jobs: Sequence[Job]) -> list[np.ndarray]:
            return [np.zeros((len(job.question.targets), len(job.prefixes) - 1)) for job in jobs]

    with pytest.raises(RuntimeError, match=r"engine scripted: .*shape \(1, 2\) for 3 prefixes"):
        measure(
            Short([[table_sample("ab")]]), [Question((5,), ((1,),))], Settings(length=2, stride=1), target_bytes=[[1]]
        )


@settings(deadline=None)
@given(answers, ways, st.integers(1, 3), st.sampled_from(["prefix", "completion"]))
def test_thinned_is_what_would_have_been_measured(
    texts: list[str], way: dict[str, Any], times: int, order: str
) -> None:
    whole = one_matrix(texts, length=6, stride=way["stride"], keep=None, order=order)
    stride = times * way["stride"]
    anew = one_matrix(texts, length=way["length"], stride=stride, keep=way["keep"], order=order)
    thinned = whole.thinned(stride=stride, length=way["length"], keep=way["keep"])
    assert thinned.as_response() == anew.as_response()
    for place in range(2):
        assert read(thinned, place, n=way["length"], stride=stride) == read(anew, place, n=way["length"], stride=stride)
    assert whole.thinned().as_response() == whole.as_response()


def full_matrix() -> Matrix:
    prefixes = (
        Prefix(0, 0, 0.0, 3),
        Prefix(2, 1, -0.1, 2),
        Prefix(2, 0, ZERO, 1),
        Prefix(4, 1, -0.30000000000000004, 1),
    )
    return Matrix(
        prefixes=prefixes,
        targets=(
            Target(7, 19, np.array([-1.0, ZERO, -1e-300, -463.0000001]), None, "must_have"),
            Target(900, 4000, np.empty(0), "target_too_long"),
        ),
        lengths=(3, 4, 0), log_p_samples=(ZERO, -0.30000000000000004, 0.0), seed=2**63 - 1, question_tokens=12,
        context_cut=5, engine="transformers", prefix_token="</s>", texts=("uno", "dos años\u2028", ""),
    )  # fmt: skip


def test_matrix_survives_json() -> None:
    matrix = full_matrix()
    text = json.dumps(matrix.as_response(), allow_nan=False)
    again = Matrix.from_response(json.loads(text))
    for field in dataclasses.fields(Matrix):
        if field.name != "targets":
            assert getattr(again, field.name) == getattr(matrix, field.name), field.name
    for one, other in zip(again.targets, matrix.targets, strict=True):
        assert one.log_p.dtype == np.float64
        assert one.log_p.tolist() == other.log_p.tolist()
        assert dataclasses.replace(one, log_p=other.log_p) == other
    assert read(again, 0, n=4, stride=2) == read(matrix, 0, n=4, stride=2)
    bare = dataclasses.replace(matrix, prefix_token=None, texts=(), context_cut=0)
    assert Matrix.from_response(json.loads(json.dumps(bare.as_response()))).as_response() == bare.as_response()


@pytest.mark.parametrize(
    "change",
    [
        {"position": [0, 2, 2]},
        {"count": None},
        {"targets": [{"tokens": 7, "bytes": 19, "log_p": [-1.0]}]},
        {"targets": [{"tokens": 7, "bytes": 19, "log_p": [-1.0] * 4, "reason": "target_too_long"}]},
        {"targets": [{"bytes": 19, "log_p": [-1.0] * 4}]},
        {"lengths": ["three"]},
        {"seed": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_faulty_responses_are_refused(change: dict[str, Any]) -> None:
    response = full_matrix().as_response()
    Matrix.from_response(response)
    with pytest.raises(ValueError, match="not a matrix of Relaxed Perplexity"):
        Matrix.from_response({**response, **change})


@pytest.mark.parametrize("response", [None, "", "an answer", [], [1], {}, {"position": []}, 3.5])
def test_other_responses_are_refused(response: Any) -> None:
    with pytest.raises(ValueError, match="not a matrix of Relaxed Perplexity"):
        Matrix.from_response(response)


def test_values_by_position() -> None:
    matrix = full_matrix()
    assert matrix.positions == [0, 2, 4]
    assert [row.tolist() for row in matrix.by_position([1, 2, 3, 4])] == [[1.0], [2.0, 3.0], [4.0]]
    with pytest.raises(ValueError, match="shorter"):
        matrix.by_position([1, 2, 3])


def test_settings_are_the_papers_unless_told_otherwise() -> None:
    settings = Settings()
    assert (settings.samples, settings.keep, settings.length, settings.stride) == (10, 5, 128, 8)
    assert len(settings.positions) == 17
    assert (settings.positions[0], settings.positions[-1]) == (0, 128)
    assert list(Settings(length=20, stride=8).positions) == [0, 8, 16]
    assert list(Settings(length=0).positions) == [0]


def test_settings_from_options() -> None:
    options = {
        "relaxed_samples": "20", "relaxed_keep": " all ", "relaxed_length": 64, "relaxed_stride": "16",
        "relaxed_top_p": "1", "relaxed_temperature": 0.5, "relaxed_seed": 0, "relaxed_order": "completion",
        "relaxed_end": "ignore", "data": "sample", "length": 3,
    }  # fmt: skip
    settings = Settings.from_options(options)
    assert settings == Settings(20, None, 64, 16, 1.0, 0.5, 0, "completion", "ignore")
    assert Settings.from_options({"relaxed_keep": None, "metrics": "rouge1"}) == Settings()
    assert set(HELP) == {field.name for field in dataclasses.fields(Settings)}
    assert Settings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings
    assert Settings.from_dict({**settings.as_dict(), "of_a_later_version": 1}) == settings


def test_signature_tells_settings_apart() -> None:
    assert Settings(keep=None).signature == (
        "s:10|l:all|n:128|stride:8|top_p:0.9|temperature:1|seed:1234|order:prefix|end:stop"
    )
    others = {
        "samples": 11, "keep": 4, "length": 64, "stride": 4, "top_p": 0.95, "temperature": 0.7, "seed": 1,
        "order": "completion", "end": "ignore",
    }  # fmt: skip
    found = {Settings(**{name: value}).signature for name, value in others.items()}  # type: ignore[arg-type]
    assert len(found | {Settings().signature}) == len(HELP) + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relaxed_samples": 0}, r"relaxed_samples=0: expected 1 or more; completions sampled"),
        ({"relaxed_samples": "ten"}, r"relaxed_samples=ten: expected a whole number"),
        ({"relaxed_samples": 2.5}, r"relaxed_samples=2\.5: expected a whole number"),
        ({"relaxed_keep": 0}, r"relaxed_keep=0: expected 1 or more"),
        ({"relaxed_keep": "most"}, r"relaxed_keep=most: expected a whole number; .* or `all`"),
        ({"relaxed_length": -1}, r"relaxed_length=-1: expected 0 or more"),
        ({"relaxed_stride": 0}, r"relaxed_stride=0: expected 1 or more"),
        ({"relaxed_seed": -1}, r"relaxed_seed=-1: expected 0 or more"),
        ({"relaxed_top_p": 0}, r"relaxed_top_p=0\.0: expected a number above 0, at most 1"),
        ({"relaxed_top_p": 1.01}, r"relaxed_top_p=1\.01: expected"),
        ({"relaxed_top_p": "nan"}, r"relaxed_top_p=nan: expected"),
        ({"relaxed_top_p": "high"}, r"relaxed_top_p=high: expected a number"),
        ({"relaxed_temperature": 0}, r"relaxed_temperature=0\.0: expected a number above 0"),
        ({"relaxed_temperature": "inf"}, r"relaxed_temperature=inf: expected"),
        ({"relaxed_order": "likely"}, r"relaxed_order=likely: expected one of prefix, completion"),
        ({"relaxed_end": "never"}, r"relaxed_end=never: expected one of stop, ignore"),
    ],
)
def test_faulty_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings.from_options(options)
