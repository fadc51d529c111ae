"""F1-RadGraph: the reward by hand and by the package's numbers, what it asks a model for, what it says of itself.

`tests/reference/f1_radgraph.json` holds what the package radgraph 0.1.18 as published, on transformers 4.57.6, says
with the random weights of `tiny_radgraph`; `python scripts/reference_tables.py` makes it again.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics import f1_radgraph, suite
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from lm_eval_healthcare.metrics.f1_radgraph import F1RadGraph
from lm_eval_healthcare.metrics.radgraph_annotator import Annotated
from lm_eval_healthcare.metrics.radgraph_reward import LEVELS, reward
from tiny_radgraph import Known, bare_machine, write_files

KNOWN = Known()
INSTALLED = importlib.util.find_spec("radgraph") is not None
OBSERVATION, ABSENT, ANATOMY = "Observation::definitely present", "Observation::definitely absent", "Anatomy"

Entities = dict[str, dict[str, Any]]


def entities(*found: tuple[str, str, list[tuple[str, str]]]) -> Entities:
    """Entities as the package gives them, numbered from 1."""
    keys = ("tokens", "label", "relations")
    return {str(n): dict(zip(keys, entity, strict=True)) for n, entity in enumerate(found, start=1)}


EFFUSION = entities(("large", OBSERVATION, [("modify", "3")]), ("right", ANATOMY, []), ("effusion", OBSERVATION, []))
# The size modifies nothing here, and there is an entity more.
OTHER = entities(("large", OBSERVATION, []), ("right", ANATOMY, []), ("effusion", OBSERVATION, []), ("no", ABSENT, []))
LUNG = entities(("large", OBSERVATION, [("modify", "2")]), ("right", ANATOMY, []), ("effusion", OBSERVATION, []))


@pytest.mark.parametrize(
    ("prediction", "reference", "level", "expected"),
    [
        # simple: 3 of 3 facts are among the 4: p = 1, r = 3/4, 2pr/(p+r) = 6/7
        (EFFUSION, OTHER, "simple", 6 / 7),
        # partial: "large" has a relation on one side alone: 2 shared of 3 and 4: 2 * 2/3 * 1/2 / (2/3 + 1/2) = 4/7
        (EFFUSION, OTHER, "partial", 4 / 7),
        (OTHER, EFFUSION, "partial", 4 / 7),
        (EFFUSION, OTHER, "complete", 4 / 7),
        # "large" modifies another entity: partial does not see it, complete does: 2 of 3 and 2 of 3
        (EFFUSION, LUNG, "partial", 1.0),
        (EFFUSION, LUNG, "complete", 2 / 3),
        # another label is another fact
        (entities(("effusion", ABSENT, [])), entities(("effusion", OBSERVATION, [])), "simple", 0.0),
        # said twice counts once: 1 of 1 and 1 of 1
        (entities(*[("no", ABSENT, [])] * 2), entities(("no", ABSENT, [])), "partial", 1.0),
        # two relations of one entity are two facts: 1 shared of 2 and 1
        (
            entities(("a", ANATOMY, [("modify", "2"), ("located_at", "2")]), ("b", ANATOMY, [("modify", "1")])),
            entities(("a", ANATOMY, [("modify", "2")]), ("b", ANATOMY, [("modify", "1")])),
            "complete",
            2 * (2 / 3) * 1 / (2 / 3 + 1),
        ),
        ({}, EFFUSION, "partial", 0.0),
        (EFFUSION, {}, "partial", 0.0),
        ({}, {}, "simple", 0.0),
    ],
)
def test_reward_by_hand(prediction: Entities, reference: Entities, level: str, expected: float) -> None:
    assert reward(prediction, reference, level) == pytest.approx(expected, abs=1e-15)


def test_reward_is_the_packages_on_its_own_annotations() -> None:
    for level in LEVELS:
        assert len(KNOWN.rewards[level]) == len(KNOWN.reports) ** 2
        for (prediction, reference), known in KNOWN.rewards[level].items():
            assert reward(KNOWN.entities[prediction], KNOWN.entities[reference], level) == known


@pytest.mark.skipif(not INSTALLED, reason="needs the package radgraph")
def test_reward_is_the_packages_on_made_up_annotations() -> None:
    from radgraph.rewards import compute_reward

    rng = random.Random(3)

    def made_up() -> Entities:
        n = rng.choice([0, 1, 2, 3, 5, 9])
        relations = [[("modify", str(rng.randint(1, n))) for _ in range(rng.choice([0, 0, 1, 2]))] for _ in range(n)]
        return entities(*((rng.choice(["Lung", "lung", "clear", "no"]), rng.choice("AB"), r) for r in relations))

    for _ in range(1000):
        prediction, reference = made_up(), made_up()
        for level in LEVELS:
            expected = compute_reward({"entities": prediction}, {"entities": reference}, level)
            assert reward(prediction, reference, level) == expected


def test_a_level_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="radgraph_reward=all: expected one of partial, simple, complete"):
        reward({}, {}, "all")
    with pytest.raises(ValueError, match="radgraph_reward=all: expected one of partial"):
        metrics.signature("f1_radgraph", radgraph_reward="all")


class Words:
    """Stands for a model: every word is an entity; `cut` is a word that it does not see."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def annotate(self, report: str) -> Annotated:
        self.seen.append(report)
        words = [word for word in report.split() if word not in ("cut", "nothing")]
        return Annotated(entities(*((word, OBSERVATION, []) for word in words)), "cut" in report.split())


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Words:
    model = Words()
    monkeypatch.setattr(F1RadGraph, "_model", lambda self, settings: model)
    return model


def test_case_alone_changes_nothing_and_there_is_one_number_a_report(words: Words) -> None:
    predictions = ["No acute process", "Large right effusion"]  # the reports of case b18
    for level in LEVELS:
        scores = metrics.score(
            predictions, ["No acute process", "large right effusion"], metrics="f1_radgraph", radgraph_reward=level
        )["f1_radgraph"]
        assert scores.tolist() == [1.0, 1.0]
        assert scores.dtype == np.float64
    assert "|case:lower|" in metrics.signature("f1_radgraph")


def test_equal_reports_are_annotated_once(words: Words) -> None:
    metrics.score(["Clear", "clear lungs"] * 5000, ["clear"] * 10000, metrics="f1_radgraph")
    assert sorted(words.seen) == ["clear", "clear lungs"]


def test_best_reference_counts_and_blank_reports_are_not_asked(words: Words) -> None:
    calls: list[tuple[str, int, float, bool]] = []
    found = suite.measure(
        ["a b", None, "a", "\u200b", "nothing", "a"],
        [["c d", "a c", " "], "a", None, "b", "nothing", ["a cut", "a"]],
        "f1_radgraph",
        report=lambda *facts: calls.append(facts),
    )
    # "a b" and "a c" share one of two words: 1/2. No entity on either side: 0, as in the original.
    assert found.scores["f1_radgraph"][[0, 1, 3, 4, 5]].tolist() == [0.5, 0.0, 0.0, 0.0, 1.0]
    assert np.isnan(found.scores["f1_radgraph"][2])
    assert found.truncated["f1_radgraph"].tolist() == [False] * 5 + [True]
    assert calls == [("f1_radgraph", 0, 0.5, False), ("f1_radgraph", 4, 0.0, False), ("f1_radgraph", 5, 1.0, True)]
    assert sorted(words.seen) == ["a", "a b", "a c", "a cut", "c d", "nothing"]


def test_what_the_metric_says_of_itself() -> None:
    metric = F1RadGraph()
    assert (metric.heavy, metric.limited, metric.domain, metric.extra) == (True, True, "radiology", "radgraph")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without internet whose caches are empty."""
    return bare_machine(tmp_path, monkeypatch)


@pytest.fixture
def model_folder(machine: Path) -> Path:
    """A model in a folder, without usable weights."""
    folder = write_files(machine / "radgraph-xl")
    (folder / "weights.th").write_bytes(b"weights")
    return folder


def test_the_package_is_missing(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(F1RadGraph, "requires", ("a_package_that_is_not_there",))
    expected = 'f1_radgraph needs a-package-that-is-not-there: pip install "lm-eval-healthcare[radgraph]"'
    assert suite.missing("f1_radgraph") == expected
    with pytest.raises(ModelMissing, match="lm-eval-healthcare\\[radgraph\\]"):
        metrics.score(["a"], ["b"], metrics="f1_radgraph")


def test_the_weights_are_missing(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(F1RadGraph, "requires", ())
    problem = suite.missing("f1_radgraph")
    assert problem is not None
    assert "radgraph_model=radgraph-xl: StanfordAIMI/RRG_scorers/radgraph-xl.tar.gz is not on this machine" in problem
    assert f"{machine / 'cache' / 'radgraph' / '0.1.18' / 'radgraph-xl'}" in problem
    assert "hf download StanfordAIMI/RRG_scorers radgraph-xl.tar.gz" in problem
    assert "radgraph_model=FOLDER/radgraph-xl.tar.gz" in problem
    with pytest.raises(ModelMissing, match=r"radgraph-xl\.tar\.gz is not on this machine"):
        metrics.score(["a"], ["b"], metrics="f1_radgraph")
    assert "|model:radgraph-xl@absent|" in metrics.signature("f1_radgraph")


def test_the_signature_says_what_scores_depend_on(model_folder: Path) -> None:
    first = metrics.signature("f1_radgraph", radgraph_model=str(model_folder))
    version = f1_radgraph.package_version("radgraph")
    start, rest = first.split("|model:radgraph-xl@")
    assert start == f"f1_radgraph|impl:lm_eval_healthcare-1|ref:radgraph-{version}"
    assert rest[12:] == "|dtype:float32|reward:partial|case:lower|words:1024|refs:best|scale:0-1|blank:0"
    signatures = {first, metrics.signature("f1_radgraph", radgraph_model=str(model_folder), radgraph_reward="simple")}
    signatures.add(metrics.signature("f1_radgraph", radgraph_model=str(model_folder), metrics_device="cpu"))
    assert len(signatures) == 2
    (model_folder / "weights.th").write_bytes(b"other weights")
    signatures.add(metrics.signature("f1_radgraph", radgraph_model=str(model_folder)))
    vocabulary = model_folder / "encoder" / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text() + "more\n")
    signatures.add(metrics.signature("f1_radgraph", radgraph_model=str(model_folder)))
    assert len(signatures) == 4
