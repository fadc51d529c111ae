"""A world whose structure is known: 12 models, three clusters of metrics, a constant column, and gaps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval_healthcare.analysis.claims import Claim, check_claims
from lm_eval_healthcare.analysis.clusters import cluster
from lm_eval_healthcare.analysis.correlation import correlate
from lm_eval_healthcare.analysis.scores import Column, Scores

FAMILIES = {
    "perplexity": (0, ("word_perplexity", "byte_perplexity", "bits_per_byte")),
    "n-gram": (1, ("bleu", "rouge1", "rouge2", "rougeL")),
    "semantic": (2, ("bert_score", "bleurt", "mover_score", "prometheus")),
}
CHOICES = ("medqa_4options", "medmcqa", "careqa_en", "pubmedqa")


def world(models: int = 12, seed: int = 3) -> Scores:
    """Three hidden abilities; perplexities are powers of one and fall as it rises; PubMedQA has one of its own."""
    rng = np.random.default_rng(seed)
    ability = rng.standard_normal((models, 3))
    columns, values = [], []
    for factor, metrics in FAMILIES.values():
        for metric in metrics:
            lower = factor == 0
            noisy = ability[:, factor] + (0.03 if lower else 0.3) * rng.standard_normal(models)
            task = "medtext_perplexity" if lower else "medtext"
            columns.append(Column(f"{task}/{metric}", task, metric, higher_is_better=not lower))
            values.append(
                np.exp(2.5 - 0.15 * noisy) if metric.endswith("ity") else (-noisy if lower else 0.3 + noisy / 10)
            )
    general = rng.standard_normal(models)
    for task in CHOICES:
        own = rng.standard_normal(models)
        columns.append(Column(f"{task}/acc", task, "acc"))
        values.append(0.6 + (own if task == "pubmedqa" else general + 0.3 * own) / 20)
    columns.append(Column("olaph/rouge1", "olaph", "f1_radgraph"))
    values.append(np.full(models, 0.2))
    matrix = np.array(values).T
    matrix[0, 3] = matrix[1, 9] = matrix[2, 12] = math.nan  # bleu, mover_score and medmcqa of one model each
    blank = np.full(matrix.shape, 0.01)
    return Scores(tuple(f"model-{row:02}" for row in range(models)), tuple(columns), matrix, blank, blank * 1e4)


def metrics_only(scores: Scores) -> Scores:
    return scores.take([column.name for column in scores.columns if column.metric != "acc"])


def test_three_clusters_of_metrics_are_found_again() -> None:
    found = cluster(metrics_only(world()), rng=np.random.default_rng(0), n_resamples=200)
    wanted = [
        [f"medtext{'_perplexity' if factor == 0 else ''}/{metric}" for metric in metrics]
        for factor, metrics in FAMILIES.values()
    ]
    assert found.groups == wanted
    assert found.left_out == (("olaph/rouge1", "constant"),)
    # Twelve models are few: in a resample of them, clusters often come near each other by chance.
    assert 0.5 < found.agreement < 0.9
    assert found.together[0, 1] > 0.9
    assert found.together[0, 5] < 0.2


def test_signs_flags_and_counts() -> None:
    given = world()
    for method in ("pearson", "spearman", "kendall"):
        found = {(one.x, one.y): one for one in correlate(given, method, rng=np.random.default_rng(0), n_bootstrap=200)}
        assert len(found) == 16 * 15 // 2
        perplexities = found["medtext_perplexity/word_perplexity", "medtext_perplexity/bits_per_byte"]
        assert perplexities.r > 0.8
        assert {"x_reversed", "y_reversed"} <= set(perplexities.flags)
        assert found["medtext/bleu", "medtext/rouge1"].n == 11
        assert found["medtext/bleu", "medtext/mover_score"].n == 10
        assert found["medqa_4options/acc", "careqa_en/acc"].r > 0.6
        for (x, y), one in found.items():
            constant = "olaph/rouge1" in (x, y)
            assert (one.reason == "constant") == constant
            assert math.isnan(one.r) == constant
        # Nothing is left of chance finds between clusters after correction, and all of the perplexities.
        assert perplexities.adjusted < 0.05


def test_direction_decides_the_sign() -> None:
    """With one ability behind everything, better goes with better if directions are aligned, and not if not."""
    rng = np.random.default_rng(5)
    ability = rng.standard_normal(12)
    matrix = np.column_stack([0.6 + ability / 20, np.exp(2 - ability / 3)])
    columns = Column("t/acc", "t", "acc"), Column("t/word_perplexity", "t", "word_perplexity", higher_is_better=False)
    blank = np.full(matrix.shape, np.nan)
    given = Scores(tuple(f"m{row:02}" for row in range(12)), columns, matrix, blank, blank)
    (turned,) = correlate(given, rng=rng, n_bootstrap=0, n_permutations=99)
    (raw,) = correlate(given, rng=rng, n_bootstrap=0, n_permutations=99, align_directions=False)
    assert (turned.r, raw.r) == (pytest.approx(1.0), pytest.approx(-1.0))


def claims(scores: Scores, method: str = "spearman") -> dict[str, Claim]:
    return {one.name: one for one in check_claims(scores, method, rng=np.random.default_rng(0), n_bootstrap=400)}


def test_the_papers_statements() -> None:
    found = claims(world(), "pearson")
    assert {name: one.verdict for name, one in found.items()} == {
        "perplexities": "holds", "three clusters": "holds", "PubMedQA": "holds",
    }  # fmt: skip
    for one in found.values():
        assert one.low <= one.value <= one.high
        assert one.n in (10, 11, 12)
        assert f"{one.value:.3f}" in one.detail


def test_statements_that_do_not_hold() -> None:
    """The same world with perplexities that share little, metrics that all measure one thing, and PubMedQA like all."""
    given = world(30)
    rng = np.random.default_rng(1)
    names = [column.metric for column in given.columns]
    given.values[:, names.index("byte_perplexity")] = np.exp(rng.standard_normal(30))
    general = rng.standard_normal(30)
    for place, column in enumerate(given.columns):
        if column.metric in ("bleu", "rouge1", "rouge2", "rougeL", "bert_score", "bleurt", "mover_score", "prometheus"):
            # Each n-gram metric is one semantic metric's twin, so that they go together across the clusters.
            given.values[:, place] = rng.standard_normal(30)
    for one, twin in (
        ("bleu", "bert_score"),
        ("rouge1", "bleurt"),
        ("rouge2", "mover_score"),
        ("rougeL", "prometheus"),
    ):
        given.values[:, names.index(twin)] = given.values[:, names.index(one)]
    for place, column in enumerate(given.columns):
        if column.task == "pubmedqa":
            given.values[:, place] = general
        elif column.metric == "acc":
            given.values[:, place] = general + rng.standard_normal(30)
    found = claims(given)
    assert found["perplexities"].verdict == "does not hold"
    assert found["three clusters"].verdict != "holds"
    assert found["PubMedQA"].verdict == "does not hold"


def test_statements_that_cannot_be_told() -> None:
    few = claims(world(4))
    assert {one.verdict for one in few.values()} == {"cannot tell"}
    assert "needs 5 or more" in few["PubMedQA"].why
    only = world().take(["medqa_4options/acc", "medtext/bleu"])
    for one in claims(only).values():
        assert one.verdict == "cannot tell"
        assert math.isnan(one.value)
        assert one.why
    nothing = only.take([])
    assert {one.verdict for one in claims(nothing).values()} == {"cannot tell"}


def test_an_average_of_the_benchmarks_is_no_benchmark() -> None:
    given = world()
    mean = np.nanmean(given.values[:, [11, 12, 13, 14]], axis=1, keepdims=True)
    averaged = Scores(
        given.models, (*given.columns, Column("mcqa_weighted/acc", "mcqa_weighted", "acc")),
        *(np.hstack([part, mean]) for part in (given.values, given.stderr, given.n)),
    )  # fmt: skip
    assert claims(averaged)["PubMedQA"] == claims(given)["PubMedQA"]
