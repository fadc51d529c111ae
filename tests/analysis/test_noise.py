"""Prediction noise and data noise: by hand, and recovered where they are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_eval_healthcare.analysis.noise import Noise, needed, split, split_difference

NAN = math.nan


def test_by_hand() -> None:
    """Means 2 and 6, variances within 2 and 8; var(2, 6) = 8; 5 / 2 of it is chance; SE = sqrt(8 / 2)."""
    found = split([[1.0, 3.0], [4.0, 8.0]])
    assert found.value == pytest.approx(4.0)
    assert found.prediction == pytest.approx(5.0)
    assert found.data == pytest.approx(8.0 - 2.5)
    assert found.se == pytest.approx(2.0)
    assert found.se_prediction == pytest.approx(math.sqrt(2.5 / 2))
    assert found.se_data == pytest.approx(math.sqrt(5.5 / 2))
    assert found.n == 2


def test_questions_with_other_numbers_of_answers_by_hand() -> None:
    """Variances 2 of 2 answers and 3 of 3 (of 1, 4, 4): chance (2/2 + 3/3) / 2 = 1; the last has too few."""
    found = split([[1.0, 3.0, NAN], [1.0, 4.0, 4.0], [9.0, NAN, NAN]])
    assert found.prediction == pytest.approx(2.5)
    assert found.data == pytest.approx(0.5 - 1.0)  # below 0: no more than chance
    assert found.se_data == 0.0
    assert found.n == 2


def test_a_difference_by_hand() -> None:
    """Differences of means 1 and 3, so var 2; chance (2/2 + 0/2 + 0/2 + 8/2) / 2 = 2.5."""
    found = split_difference([[1.0, 3.0], [5.0, 5.0]], [[1.0, 1.0], [0.0, 4.0]])
    assert found.value == pytest.approx(2.0)
    assert found.prediction == pytest.approx((2 + 0 + 0 + 8) / 2)
    assert found.se == pytest.approx(1.0)
    assert found.data == pytest.approx(2 - 2.5)


def test_known_noises_are_recovered() -> None:
    """4,000 questions: the estimates lie within four of their own standard errors.

    Of the prediction noise that is s^2 sqrt(2 / (n (K - 1))), of the data noise about (w^2 + s^2 / K) sqrt(2 / n).
    """
    rng = np.random.default_rng(8)
    n, k, sigma, omega = 4000, 5, 0.3, 0.2
    expected = rng.normal(0.5, omega, n)
    found = split(expected[:, None] + rng.normal(0, sigma, (n, k)))
    assert abs(found.prediction - sigma**2) < 4 * sigma**2 * math.sqrt(2 / (n * (k - 1)))
    assert abs(found.data - omega**2) < 4 * (omega**2 + sigma**2 / k) * math.sqrt(2 / n)
    assert found.se**2 == pytest.approx(found.se_prediction**2 + found.se_data**2)


def test_the_standard_error_is_that_of_means_over_new_questions_and_answers() -> None:
    rng = np.random.default_rng(9)
    draws = [rng.normal(0.5, 0.2, (60, 1)) + rng.normal(0, 0.4, (60, 4)) for _ in range(2000)]
    spread = np.std([draw.mean() for draw in draws])
    reported = math.sqrt(np.mean([split(draw).se ** 2 for draw in draws]))
    assert reported == pytest.approx(spread, rel=4 / math.sqrt(2 * 2000))


def test_known_noises_of_a_difference_are_recovered() -> None:
    """Both models find the same questions hard: what they share is no data noise of the difference."""
    rng = np.random.default_rng(10)
    n, k = 4000, 4
    hard = rng.normal(0, 0.5, n)
    a = hard[:, None] + rng.normal(0, 0.2, (n, k))
    b = (hard + rng.normal(0.1, 0.1, n))[:, None] + rng.normal(0, 0.3, (n, k))
    found = split_difference(a, b)
    assert abs(found.prediction - (0.04 + 0.09)) < 4 * 0.13 * math.sqrt(2 / (n * (k - 1)))
    assert abs(found.data - 0.01) < 4 * (0.01 + 0.13 / k) * math.sqrt(2 / n)
    assert abs(found.value + 0.1) < 4 * found.se
    assert found.se < 0.5 * math.hypot(split(a).se, split(b).se)  # pairing pays


def test_answers_and_questions_needed_by_hand() -> None:
    """n 100, prediction 1, data 0.5: SE 0.1 leaves 100 * 0.01 - 0.5 = 0.5 for 1 / K, so K = 2."""
    noise = Noise(0.0, 1.0, 0.5, math.sqrt(0.6 / 100), math.sqrt(0.1 / 100), math.sqrt(0.5 / 100), 100)
    assert needed(noise, 0.1).repeats == 2
    assert needed(noise, 0.2).repeats == 1
    none = needed(noise, 0.05)  # 100 * 0.0025 = 0.25 is less than the data noise
    assert none.repeats is None
    assert none.prompts == 240  # 0.6 / 0.0025
    assert needed(noise, 0.1).prompts == 60


def test_an_error_beyond_all_numbers_needs_no_number_of_questions_that_could_be_told() -> None:
    found = needed(split([[1.0, 3.0], [4.0, 8.0]]), 1e-200)  # 4 / 1e-400 questions
    assert (found.repeats, found.prompts) == (None, None)


def test_the_answers_needed_bring_the_wanted_error() -> None:
    rng = np.random.default_rng(11)
    n = 3000
    expected = rng.normal(0, 0.1, n)
    noise = split(expected[:, None] + rng.normal(0, 0.5, (n, 4)))
    want = needed(noise, 0.004)
    assert want.repeats is not None
    more = split(expected[:, None] + rng.normal(0, 0.5, (n, want.repeats)))
    assert more.se == pytest.approx(0.004, rel=0.1)


def test_what_is_undefined() -> None:
    one = split([[1.0, 3.0]])
    assert one.prediction == pytest.approx(2.0)
    assert math.isnan(one.se)
    assert math.isnan(one.data)
    none = split([[1.0, NAN], [NAN, NAN]])
    assert math.isnan(none.value)
    assert none.n == 0
    assert needed(none, 0.1).repeats is None
    assert needed(none, 0.1).prompts is None
    for wrong in (0.0, -1.0, math.inf, NAN):
        with pytest.raises(ValueError, match="above 0"):
            needed(one, wrong)
    with pytest.raises(ValueError, match="same ones"):
        split_difference([[1.0, 2.0]], [[1.0, 2.0], [1.0, 2.0]])


def test_no_noise() -> None:
    found = split([[0.5, 0.5], [0.5, 0.5]])
    assert (found.prediction, found.data, found.se) == (0.0, 0.0, 0.0)
    assert needed(found, 0.1).repeats == 1
