"""F1 from confusion matrices, against hand calculations and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval_healthcare.analysis.aggregate import scored_mean_stderr
from lm_eval_healthcare.scoring.f1 import (
    confusion_matrix,
    f1_by_class,
    jackknife_stderr,
    macro_f1,
    micro_f1,
    scored_f1_macro,
    scored_f1_macro_stderr,
    scored_f1_micro,
    scored_f1_micro_stderr,
    scored_pairs,
)

# Gold 0: three documents, two found and one taken for 1. Gold 1: two, one found and one taken for 2. Gold 2: none.
PAIRS = [(0, 0), (0, 0), (0, 1), (1, 1), (1, 2)]


def test_by_hand() -> None:
    matrix = confusion_matrix(PAIRS)
    assert matrix.tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 0]]
    # F1 = 2 hits / (gold + predicted): 4 / (3 + 2), 2 / (2 + 2), 0 / (0 + 1)
    assert f1_by_class(matrix) == pytest.approx([0.8, 0.5, 0.0])
    assert macro_f1(matrix) == pytest.approx((0.8 + 0.5) / 2)  # class 2 is never gold
    assert micro_f1(matrix) == pytest.approx(3 / 5)  # the accuracy
    assert micro_f1(matrix, [1, 2]) == pytest.approx(2 * 1 / (2 + 2 + 0 + 1))
    assert micro_f1(matrix, [0, 1, 7]) == pytest.approx(2 * 3 / (3 + 2 + 2 + 2))


def random_pairs(seed: int, classes: int, n: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    gold = rng.choice(classes, size=n, p=rng.dirichlet(np.full(classes, 0.5)))
    predicted = np.where(rng.random(n) < 0.5, gold, rng.integers(classes, size=n))
    return [(int(g), int(p)) for g, p in zip(gold, predicted, strict=True)]


@pytest.mark.parametrize(("seed", "classes", "n"), [(0, 8, 300), (1, 2, 40), (2, 5, 9), (3, 8, 20), (4, 3, 1)])
def test_against_scikit_learn(seed: int, classes: int, n: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    pairs = random_pairs(seed, classes, n)
    gold, predicted = zip(*pairs, strict=True)
    present = sorted(set(gold))
    matrix = confusion_matrix(pairs)
    theirs = metrics.f1_score(gold, predicted, labels=present, average="macro", zero_division=0)
    assert macro_f1(matrix) == pytest.approx(theirs, abs=1e-12)
    assert micro_f1(matrix) == pytest.approx(metrics.accuracy_score(gold, predicted), abs=1e-12)
    for subset in ([present[0]], present, list(range(1, classes))):
        if set(subset) & set(gold + predicted):
            theirs = metrics.f1_score(gold, predicted, labels=subset, average="micro", zero_division=0)
            assert micro_f1(matrix, subset) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(("seed", "classes", "n"), [(5, 8, 60), (6, 3, 12), (7, 8, 9)])
def test_jackknife_leaves_every_document_out_once(seed: int, classes: int, n: int) -> None:
    pairs = random_pairs(seed, classes, n)
    left = [macro_f1(confusion_matrix(pairs[:i] + pairs[i + 1 :])) for i in range(n)]
    mean = sum(left) / n
    expected = math.sqrt((n - 1) / n * sum((value - mean) ** 2 for value in left))
    matrix = confusion_matrix(pairs)
    before = matrix.copy()
    assert jackknife_stderr(matrix, macro_f1) == pytest.approx(expected, rel=1e-12)
    assert (matrix == before).all()


def test_error_of_micro_f1_is_that_of_the_accuracy() -> None:
    """The jackknife error of a mean is its closed form."""
    pairs = random_pairs(8, 6, 50)
    hits = [float(gold == predicted) for gold, predicted in pairs]
    assert scored_f1_micro_stderr(pairs) == pytest.approx(scored_mean_stderr(hits), rel=1e-12)


def test_error_of_macro_f1_is_near_the_spread_over_repeated_samples() -> None:
    """4,000 samples of one population: their standard deviation is what the error estimates."""
    rng = np.random.default_rng(9)
    cells = np.array([[0.3, 0.1, 0.05], [0.1, 0.2, 0.05], [0.02, 0.03, 0.15]])
    samples = [rng.multinomial(400, cells.ravel()).reshape(3, 3) for _ in range(4000)]
    spread = np.std([macro_f1(sample) for sample in samples])
    errors = [jackknife_stderr(sample, macro_f1) for sample in samples[:50]]
    assert np.mean(errors) == pytest.approx(spread, rel=0.06)


def test_documents_without_a_prediction_are_not_scored() -> None:
    pairs = [*((float(g), float(p)) for g, p in PAIRS), (2.0, math.nan), (0.0, math.nan)]
    assert scored_pairs(pairs) == PAIRS
    assert scored_f1_macro(pairs) == pytest.approx(0.65)
    assert scored_f1_micro(pairs) == pytest.approx(0.6)
    assert scored_f1_macro_stderr(pairs) == scored_f1_macro_stderr(PAIRS)


def test_degenerate() -> None:
    for nothing in ([], [(1.0, math.nan)]):
        assert math.isnan(scored_f1_macro(nothing))
        assert math.isnan(scored_f1_micro(nothing))
        assert math.isnan(scored_f1_macro_stderr(nothing))
    assert (scored_f1_macro([(3, 3)]), scored_f1_micro([(3, 3)])) == (1.0, 1.0)
    assert math.isnan(scored_f1_macro_stderr([(3, 3)]))
    assert scored_f1_macro([(0, 1), (1, 0)]) == 0.0
    assert scored_f1_macro_stderr([(0, 0), (1, 1)]) == 0.0
    assert math.isnan(micro_f1(confusion_matrix([(0, 0)]), [5]))


def test_order_of_documents_does_not_matter() -> None:
    pairs = random_pairs(10, 8, 100)
    assert scored_f1_macro(pairs) == scored_f1_macro(pairs[::-1])
    assert scored_f1_macro_stderr(pairs) == scored_f1_macro_stderr(sorted(pairs))
