"""From matrices to values of documents and of a corpus, by hand; `known_matrices` has the probabilities."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from known_matrices import LOG, SETTINGS, documents, first, second
from lm_eval_healthcare.relaxed_perplexity import Matrix, Settings, estimator
from lm_eval_healthcare.scoring import relaxed
from lm_eval_healthcare.scoring.relaxed import (
    DEFAULT_READINGS,
    READINGS,
    DocumentValues,
    aggregation_of,
    combined,
    corpus_value,
    document_values,
    name_parts,
    thinned_settings,
)
from lm_eval_healthcare.scoring.relaxed_summary import reduce_documents, summarise

# Document 0, must_have: log P_0 + log P_4 of A and of B.
SUM = LOG(1 / 2 * 3 / 8) + LOG(1 / 4 * 5 / 8)
AVERAGED = LOG(1 / 2 * 3 / 16) + LOG(1 / 4 * 5 / 16)
WEIGHTED = LOG(1 / 2 * 7 / 32) + LOG(1 / 4 * 13 / 32)  # a weighs 3/4, b 1/4
SAMPLED = LOG(1 / 2 * 5 / 32) + LOG(1 / 4 * 7 / 32)  # the other way round


def values(matrix: Matrix) -> dict[str, DocumentValues]:
    return document_values(matrix, [target.group for target in matrix.targets], SETTINGS)


@pytest.mark.parametrize(
    ("end", "total"), [("", SUM), ("_averaged", AVERAGED), ("_weighted", WEIGHTED), ("_sampled", SAMPLED)]
)
def test_a_document_by_hand(end: str, total: float) -> None:
    found = values(first())["must_have"]
    wanted = {
        "relaxed_perplexity": (total, 6 + 8),  # N = 4 + tokens of the target
        "log_relaxed_perplexity": (total, 6 + 8),
        "log_relaxed_perplexity_corrected": (total * 5 / 2, 6 + 8),  # 2 of 5 positions were scored
        "relaxed_nats_per_byte": (total / 2, 10 + 30),
        "relaxed_cross_entropy_sum": -total / 2,  # the mean over two targets
        "relaxed_cross_entropy_mean": -total / 2 / 2,
    }
    for name, value in wanted.items():
        assert found.items[name + end] == pytest.approx(value, rel=1e-12), name
    assert found.value(f"relaxed_perplexity{end}") == pytest.approx(math.exp(-total / 14))
    assert found.value(f"log_relaxed_perplexity{end}") == pytest.approx(-total / 14)
    assert found.items[f"log_relaxed_perplexity{end}_median"] == pytest.approx(-total / 14)
    assert found.items[f"relaxed_nats_per_byte{end}_median"] == pytest.approx(-total / 2 / 40)
    assert (found.targets, found.scored, found.reasons, found.n_eff, found.ended_early) == (2, 2, (), 4.0, False)


def test_at_any_position_by_hand() -> None:
    found = values(first())["must_have"]
    assert found.items["relaxed_cross_entropy_any"] == pytest.approx(-LOG(7 / 8))  # 1/2 + 3/8 and 1/4 + 5/8


def test_targets_without_scores_and_documents_that_end_early() -> None:
    unscored = values(first())["nice_to_have"]
    assert (unscored.targets, unscored.scored, unscored.reasons) == (1, 0, ("target_too_long",))
    assert all(math.isnan(unscored.value(reading)) for reading in READINGS)
    assert math.isnan(unscored.n_eff)
    early = values(second())
    assert (early["must_have"].n_eff, early["must_have"].ended_early) == (0.0, True)
    assert early["must_have"].items["log_relaxed_perplexity"] == pytest.approx((-LOG(16), 3))
    assert early["nice_to_have"].value("relaxed_perplexity") == math.inf
    assert early["nice_to_have"].value("relaxed_cross_entropy_any") == math.inf


def test_one_target_has_the_estimators_own_values() -> None:
    for place in (0, 1):
        matrix = replace(first(), targets=(first().targets[place],))
        found = values(matrix)["must_have"]
        alone = estimator.read(matrix, 0, n=4, stride=4)
        for reading in READINGS:
            assert found.value(reading) == pytest.approx(alone[reading.removesuffix("_median")], rel=1e-12), reading


def test_only_what_is_asked_for_is_computed() -> None:
    groups = ["must_have", "must_have", "nice_to_have"]
    for reading in READINGS:
        alone = document_values(first(), groups, SETTINGS, [reading])["must_have"]
        assert alone.items == {reading: values(first())["must_have"].items[reading]}


def test_the_number_of_groups_is_checked() -> None:
    with pytest.raises(ValueError, match="1 names of lists for 3 targets"):
        document_values(first(), ["answer"], SETTINGS)


def test_a_corpus_by_hand() -> None:
    """Ratios of sums, means over documents, medians; errors as `scoring.perplexity` and `scoring.aggregate` say."""
    found = reduce_documents(documents(), SETTINGS, list(READINGS))
    summary = summarise("must_have", [value for _, value in found["must_have"]], list(READINGS))
    pairs = [(SUM, 14.0), (-LOG(16), 3.0)]
    ratio = -(pairs[0][0] + pairs[1][0]) / 17
    error = math.sqrt(2 * sum((-s - ratio * n) ** 2 for s, n in pairs)) / 17
    assert summary.readings["log_relaxed_perplexity"] == pytest.approx((ratio, error))
    assert summary.readings["relaxed_perplexity"] == pytest.approx((math.exp(ratio), math.exp(ratio) * error))
    one, two = -SUM / 2, LOG(16)
    assert summary.readings["relaxed_cross_entropy_sum"] == pytest.approx(((one + two) / 2, abs(one - two) / 2))
    median, no_error = summary.readings["log_relaxed_perplexity_median"]
    assert median == pytest.approx((-SUM / 14 + LOG(16) / 3) / 2)
    assert math.isnan(no_error)
    assert (summary.documents, summary.targets) == ((2, 2), (3, 3))
    assert (summary.n_eff, summary.ended_early, summary.reasons) == (2.0, 0.5, {})


def test_a_corpus_with_gaps() -> None:
    found = reduce_documents(documents(), SETTINGS, ["log_relaxed_perplexity"])
    assert [number for number, _ in found["nice_to_have"]] == [0, 1]
    summary = summarise("nice_to_have", [value for _, value in found["nice_to_have"]], ["log_relaxed_perplexity"])
    assert (summary.documents, summary.targets, summary.reasons) == ((2, 1), (2, 1), {"target_too_long": 1})
    value, error = summary.readings["log_relaxed_perplexity"]
    assert value == math.inf
    assert math.isnan(error)
    assert summary.ended_early == 1.0  # of the one document that is scored
    assert all(math.isnan(number) for number in corpus_value("relaxed_cross_entropy_sum", []))


def test_names() -> None:
    assert set(DEFAULT_READINGS) <= set(READINGS)
    assert {name for name in estimator.READINGS if name not in READINGS} == {"n_eff", "positions"}
    for reading in READINGS:
        quantity, combination, median = name_parts(reading)
        assert quantity + combination + median == reading
        assert quantity in estimator.QUANTITIES
        assert combination in estimator.COMBINATIONS
    assert combined("log_relaxed_perplexity_median", "_weighted") == "log_relaxed_perplexity_weighted_median"
    assert combined("relaxed_cross_entropy_any_averaged", "_weighted") == "relaxed_cross_entropy_any_averaged"
    assert all(combined(reading, end) in READINGS for reading in READINGS for end in estimator.COMBINATIONS)
    kinds = {reading: aggregation_of(reading) for reading in DEFAULT_READINGS}
    assert kinds == {
        "relaxed_perplexity": relaxed.PERPLEXITY, "log_relaxed_perplexity": relaxed.NATS,
        "log_relaxed_perplexity_median": relaxed.MEDIAN, "relaxed_nats_per_byte": relaxed.NATS,
        "relaxed_cross_entropy_sum": relaxed.MEAN, "relaxed_cross_entropy_mean": relaxed.MEAN,
        "relaxed_cross_entropy_any": relaxed.MEAN,
    }  # fmt: skip


def test_thinned_settings() -> None:
    measured = Settings(stride=4, length=32, keep=5)
    assert thinned_settings(measured) == measured
    assert thinned_settings(measured, stride=8, length=16, keep=2) == Settings(stride=8, length=16, keep=2)
    assert thinned_settings(measured, length=0).length == 0
    assert thinned_settings(replace(measured, keep=None), keep=900).keep == 900
    for wanted, message in (
        ({"stride": 6}, "stride 6: measured every 4 tokens, so expected a multiple of that"),
        ({"stride": 2}, "stride 2: measured every 4 tokens"),
        ({"length": 33}, "length 33: completions have 32 tokens, so expected at most that"),
        ({"keep": 6}, "keep 6: 5 prefixes of a position were scored, so expected at most that"),
    ):
        with pytest.raises(ValueError, match=message):
            thinned_settings(measured, **wanted)
    by_completion = replace(measured, order="completion")
    assert thinned_settings(by_completion, length=32) == by_completion
    with pytest.raises(ValueError, match="length 16: prefixes were chosen by the whole completions of 32 tokens"):
        thinned_settings(by_completion, length=16)


def test_thinned_values_by_hand() -> None:
    """Without position 4 only what a plain log-likelihood says is left; with one prefix, a alone."""
    groups = ["must_have", "must_have", "nice_to_have"]
    plain = document_values(first().thinned(length=3), groups, thinned_settings(SETTINGS, length=3))["must_have"]
    assert plain.items["log_relaxed_perplexity"] == pytest.approx((LOG(1 / 2) + LOG(1 / 4), (3 + 2) + (3 + 4)))
    one = document_values(first().thinned(keep=1), groups, thinned_settings(SETTINGS, keep=1))["must_have"]
    assert one.items["relaxed_cross_entropy_sum"] == pytest.approx(-LOG(1 / 2 * 1 / 4 * 1 / 4 * 1 / 2) / 2)
