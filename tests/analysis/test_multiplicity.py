"""Corrected p-values: statsmodels' numbers, and a hand calculation."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_healthcare.analysis.multiplicity import adjusted

NAN = np.nan


def test_by_hand() -> None:
    p = np.array([0.04, 0.01, NAN, 0.03])
    # Holm, three tests: 3 * .01 = .03; 2 * .03 = .06; max(.06, .04) = .06.
    assert adjusted(p, "holm") == pytest.approx([0.06, 0.03, NAN, 0.06], nan_ok=True)
    # Benjamini-Hochberg: 3 / 3 * .04 = .04; min(.04, 3 / 2 * .03) = .04; min(.04, 3 * .01) = .03.
    assert adjusted(p, "bh") == pytest.approx([0.04, 0.03, NAN, 0.04], nan_ok=True)


@pytest.mark.parametrize(("how", "name"), [("holm", "holm"), ("bh", "fdr_bh")])
def test_statsmodels_numbers(how: str, name: str) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.uniform(size=60), rng.uniform(0, 1e-3, size=15), [0.5, 0.5, 1.0, 0.0]])
    assert adjusted(p, how) == pytest.approx(multitest.multipletests(p, method=name)[1], abs=1e-14)
    gaps = np.insert(p, [0, 20, 50], NAN)
    found = adjusted(gaps, how)
    assert np.isnan(found).sum() == 3
    assert found[~np.isnan(found)] == pytest.approx(adjusted(p, how))


def test_edges() -> None:
    assert adjusted(np.array([]), "holm").shape == (0,)
    assert np.isnan(adjusted(np.array([NAN, NAN]), "bh")).all()
    assert adjusted(np.full((2, 2), 0.4), "holm").tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(ValueError, match="expected one of holm, bh"):
        adjusted(np.array([0.1]), "bonferroni")
    with pytest.raises(ValueError, match="between 0 and 1"):
        adjusted(np.array([1.5]), "holm")
