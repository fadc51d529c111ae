"""BLEURT in a run: what is computed, reported and kept, and where; blank predictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_bleurt as tiny
from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics import bleurt
from lm_eval_healthcare.metrics.bleurt_checkpoint import Checkpoint, CheckpointError
from lm_eval_healthcare.metrics.encoding import batches, release_all
from tiny_bleurt import texts

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

METRIC = bleurt.Bleurt()
Models = dict[str, str]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """A checkpoint for 64 tokens."""
    yield {"bert": str(tiny.tiny_bleurt(tmp_path_factory.mktemp("bleurt") / "bert"))}
    release_all()


def score(predictions: list[str], references: Any, model: str, **options: Any) -> np.ndarray:
    return METRIC.score(predictions, references, bleurt_model=model, **{"metrics_device": "cpu", **options})


def test_damaged_weights_are_an_error_and_no_score(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    arrays = tiny.load(folder)
    arrays["classifier.bias"][:] = np.nan
    tiny.save(folder, arrays, "bin")
    with pytest.raises(CheckpointError, match="not finite: its weights are damaged"):
        score(["fever"], ["cough"], str(folder))


def test_equal_documents_are_computed_once(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = bleurt._Scorer.__call__

    def counting(self: Any, pairs: Any) -> Any:
        seen.extend(pairs)
        return original(self, pairs)

    monkeypatch.setattr(bleurt._Scorer, "__call__", counting)
    scores = score(["mild fever"] * 10_000, [["fever", "fever", "cough"]] * 10_000, models["bert"])
    assert len(seen) == 2
    assert np.ptp(scores) == 0


def test_documents_are_reported_as_they_are_complete(models: Models) -> None:
    predictions, references = [*texts(5, seed=13), "fever"], [texts(2, seed=30 + row) for row in range(6)]
    predictions[5], references[5] = predictions[0], references[0]
    told = []
    measured = METRIC.measure(
        ["bleurt"],
        predictions,
        references,
        bleurt_model=models["bert"],
        report=lambda *what: told.append(what),
        metrics_batch_tokens=1,
    )
    assert [name for name, *_ in told] == ["bleurt"] * 6
    assert {row: (value, cut) for _, row, value, cut in told} == {
        row: (measured.scores["bleurt"][row], measured.truncated["bleurt"][row]) for row in range(6)
    }


def test_a_run_that_dies_has_reported_what_it_knew(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = bleurt._Scorer.__call__

    def dying(self: Any, pairs: Any) -> Any:
        calls.append(len(pairs))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(self, pairs)

    monkeypatch.setattr(bleurt._Scorer, "__call__", dying)
    told = []
    with pytest.raises(KeyboardInterrupt):
        score(
            texts(8, seed=14), texts(8, seed=15), models["bert"],
            metrics_batch_tokens=1, report=lambda *what: told.append(what),
        )  # fmt: skip
    assert len(told) == 3


def test_out_of_memory_halves_the_batch(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    predictions, references = texts(12, seed=16, longest=20), texts(12, seed=17, longest=20)
    expected = score(predictions, references, models["bert"])
    original = bleurt._Scorer.__call__

    def small(self: Any, pairs: Any) -> Any:
        if len(pairs) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, pairs)

    monkeypatch.setattr(bleurt._Scorer, "__call__", small)
    np.testing.assert_allclose(score(predictions, references, models["bert"]), expected, atol=1e-6)
    monkeypatch.setattr(bleurt._Scorer, "__call__", lambda self, pairs: small(self, [*pairs] * 3))
    with pytest.raises(batches.DoesNotFit, match="metrics_dtype=bfloat16"):
        score(predictions, references, models["bert"])


def test_nothing_to_score() -> None:
    measured = METRIC.measure(["bleurt"], [], [], bleurt_model="/no/such/folder")
    assert measured.scores["bleurt"].shape == measured.truncated["bleurt"].shape == (0,)


def test_through_the_suite(models: Models) -> None:
    found = metrics.score(
        ["mild fever", "", None, "cough"], ["fever", "fever", "", None], "bleurt", bleurt_model=models["bert"]
    )
    scores = found["bleurt"]
    alone = [score([text], ["fever"], models["bert"])[0] for text in ("mild fever", "")]
    np.testing.assert_allclose(scores[:2], alone, atol=1e-6)
    assert np.isnan(scores[2:]).all()


def by_the_network(folder: Path, reference: str) -> float:
    """The network's output for a reference and a prediction of no subwords: `[CLS] reference [SEP] [SEP]`."""
    subwords = Checkpoint.read(folder).subwords()
    ids = [subwords.cls, *subwords.ids(reference).tolist(), subwords.sep, subwords.sep]
    return tiny.network(tiny.load(folder), np.array(ids), np.array([0] * (len(ids) - 1) + [1]))


def shifted(folder: Path, shift: float) -> Path:
    """Write a checkpoint whose scores are all higher by a number."""
    arrays = tiny.load(tiny.tiny_bleurt(folder))
    arrays["classifier.bias"] += shift
    tiny.save(folder, arrays, "bin")
    return folder


BLANK = ["", " ", "\n\t", "\u200b", None]


def test_a_blank_prediction_is_not_above_answers_whose_scores_are_negative(tmp_path: Path) -> None:
    folder = shifted(tmp_path, -10)
    references = [["dry cough", "mild fever"], "no pain in chest", "fever", "cough", "high blood pressure"]
    options = {"bleurt_model": str(folder), "metrics_device": "cpu"}
    scores = metrics.score(BLANK, references, "bleurt", **options)["bleurt"]
    expected = [
        max(by_the_network(folder, text) for text in ([texts] if isinstance(texts, str) else texts))
        for texts in references
    ]
    np.testing.assert_allclose(scores, expected, atol=2e-6)
    answers = metrics.score(texts(5, seed=40), references, "bleurt", **options)["bleurt"]
    assert max(*scores, *answers) < -3  # 0 would have been the best of all
    np.testing.assert_array_equal(METRIC.score(BLANK[:4], references[:4], **options), scores[:4])


def test_a_blank_prediction_gains_nothing_from_scores_above_0(tmp_path: Path) -> None:
    folder = shifted(tmp_path, 10)
    told: list[Any] = []
    options = {"bleurt_model": str(folder), "metrics_device": "cpu"}
    found = metrics.measure(
        ["", "\ufffd", "fever"],
        ["fever", "fever", "fever " * 80],
        "bleurt",
        report=lambda *f: told.append(f),
        **options,
    )
    scores = found.scores["bleurt"]
    assert scores[0] == 0.0
    # Visible, but nothing to the tokenizer: what the network says, as in the original.
    assert scores[1] == pytest.approx(by_the_network(folder, "fever"), abs=2e-6)
    assert scores[1] > 3
    assert sorted(told) == [("bleurt", row, scores[row], row == 2) for row in range(3)]
    assert "|blank:network-or-0" in METRIC.signature(**options)


@pytest.mark.parametrize("long", ["truncate", "windows"])
def test_a_blank_prediction_for_a_long_reference(tmp_path: Path, long: str) -> None:
    """100 one-piece words where 61 fit: the first 61, or the mean over the halves."""
    folder = shifted(tmp_path, -10)
    words = ["fever", "cough", "blood", "pain"] * 25
    parts = [words[:61]] if long == "truncate" else [words[:50], words[50:]]
    measured = METRIC.measure(["bleurt"], [""], [" ".join(words)], bleurt_model=str(folder), metrics_long=long)
    expected = np.mean([by_the_network(folder, " ".join(part)) for part in parts])
    assert measured.scores["bleurt"][0] == pytest.approx(expected, abs=2e-6)
    assert measured.truncated["bleurt"].tolist() == [long == "truncate"]


def test_weights_that_change_on_disk_are_loaded_again(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    before = score(["fever"], ["cough"], str(folder))[0]
    arrays = tiny.load(folder)
    arrays["classifier.bias"] += 1
    tiny.save(folder, arrays, "bin")
    assert score(["fever"], ["cough"], str(folder))[0] == pytest.approx(before + 1, abs=1e-5)
