"""F1-RadGraph: the reward by hand and by the package's numbers, weights and their absence, the package's real code.

`tests/reference/f1_radgraph.json` holds what the package radgraph 0.1.18 as published, on transformers 4.57.6, says
with the random weights of `tiny_radgraph`; that file's docstring has the command that makes it again.
"""

from __future__ import annotations

import importlib.util
import io
import json
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics import f1_radgraph, radgraph_annotator, radgraph_weights, suite
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from lm_eval_healthcare.metrics.f1_radgraph import F1RadGraph
from lm_eval_healthcare.metrics.radgraph_annotator import MAX_CHARACTERS, Annotated
from lm_eval_healthcare.metrics.radgraph_reward import LEVELS, reward
from support import TESTS

TABLE = json.loads((TESTS / "reference" / "f1_radgraph.json").read_text(encoding="utf-8"))
REPORTS = [row["text"] for row in TABLE["reports"]]
FOUND = [row["entities"] for row in TABLE["reports"]]
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
    assert len(TABLE["rewards"]) == len(REPORTS) ** 2
    for row in TABLE["rewards"]:
        for level in LEVELS:
            assert reward(FOUND[row["prediction"]], FOUND[row["reference"]], level) == row[level]


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


# Weights


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without internet whose caches are empty."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    return tmp_path


@pytest.fixture
def model_folder(machine: Path) -> Path:
    """A model in a folder, without usable weights."""
    from tiny_radgraph import write_files

    folder = write_files(machine / "radgraph-xl")
    (folder / "weights.th").write_bytes(b"weights")
    return folder


def packed(folder: Path, archive: Path) -> Path:
    """Pack a model as the published archives are packed, but not its encoder, which they lack."""
    with tarfile.open(archive, "w:gz") as tar:
        for path in (folder, *sorted(folder.rglob("*"))):
            if "encoder" not in path.parts:
                tar.add(path, f"./{path.relative_to(folder).as_posix()}", recursive=False)
    return archive


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


@pytest.mark.parametrize("model", ["echograph", "no/such/folder", "radgraph-xxl"])
def test_a_model_that_does_not_exist(machine: Path, model: str) -> None:
    expected = (
        f"radgraph_model={model}: there is no such folder or archive; published models are radgraph-xl, modern-rad"
    )
    assert (radgraph_weights.missing(model) or "").startswith(expected)


def test_a_folder(model_folder: Path) -> None:
    weights = radgraph_weights.locate(str(model_folder))
    assert (weights.folder, weights.kind, weights.encoder) == (model_folder, "radgraph-xl", model_folder / "encoder")
    assert radgraph_weights.missing(str(model_folder)) is None


def test_a_folder_that_lacks_a_file(model_folder: Path) -> None:
    (model_folder / "weights.th").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert "weights.th is only a pointer of Git LFS" in (radgraph_weights.missing(str(model_folder)) or "")
    (model_folder / "weights.th").unlink()
    shutil.rmtree(model_folder / "vocabulary")
    problem = radgraph_weights.missing(str(model_folder)) or ""
    assert f"there is no weights.th and no vocabulary in {model_folder}" in problem
    (model_folder / "weights.th").write_bytes(b"weights")
    (model_folder / "vocabulary").mkdir()
    (model_folder / "vocabulary" / "x.txt").write_text("x\n")
    (model_folder / "config.json").write_text('{"model": 3}')
    assert "its vocabulary is for no labels at all" in (radgraph_weights.missing(str(model_folder)) or "")
    (model_folder / "vocabulary" / "radgraph__ner_labels.txt").write_text("\n")
    assert "is not the configuration of a RadGraph model" in (radgraph_weights.missing(str(model_folder)) or "")


def test_the_kind_of_model_is_read_from_its_labels(model_folder: Path) -> None:
    labels = model_folder / "vocabulary" / "radgraph-xl__ner_labels.txt"
    other = model_folder.rename(model_folder.parent / "mine")
    assert radgraph_weights.locate(str(other)).kind == "radgraph-xl"
    (other / "vocabulary" / "radgraph__ner_labels.txt").write_text("\n")
    with pytest.raises(ModelMissing, match="its vocabulary is for radgraph, radgraph-xl; it must be for one of"):
        radgraph_weights.locate(str(other))
    named = other.rename(other.parent / "radgraph")
    assert radgraph_weights.locate(str(named)).kind == "radgraph"
    (named / "vocabulary" / labels.name).rename(named / "vocabulary" / "echograph__ner_labels.txt")
    (named / "vocabulary" / "radgraph__ner_labels.txt").unlink()
    with pytest.raises(ModelMissing, match="its vocabulary is for echograph"):
        radgraph_weights.locate(str(named))


def test_the_encoder_is_missing(model_folder: Path) -> None:
    config = json.loads((model_folder / "config.json").read_text())
    for part in (config["model"]["embedder"]["token_embedders"], config["dataset_reader"]["token_indexers"]):
        part["bert"]["model_name"] = "some/encoder"
    (model_folder / "config.json").write_text(json.dumps(config))
    encoder = (model_folder / "encoder").rename(model_folder.parent / "elsewhere")
    problem = radgraph_weights.missing(str(model_folder)) or ""
    assert "the configuration and the tokenizer of its encoder some/encoder are not on this machine" in problem
    assert f"looked in {model_folder / 'encoder'}" in problem
    assert "hf download some/encoder --include '*.json' '*.txt' '*.model' --local-dir encoder" in problem
    assert f"put the folder encoder into {model_folder}." in problem
    snapshot = model_folder.parent / "hub" / "models--some--encoder" / "snapshots" / "0123"
    shutil.copytree(encoder, snapshot)
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs" / "main").write_text("0123")
    assert radgraph_weights.locate(str(model_folder)).encoder == snapshot


def test_an_archive_is_unpacked_once(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = packed(model_folder, model_folder.parent / "radgraph-xl.tar.gz")
    weights = radgraph_weights.locate(str(archive))
    assert weights.kind == "radgraph-xl"
    assert weights.folder.is_relative_to(model_folder.parent / "cache" / "lm_eval_healthcare")
    assert (weights.folder / "weights.th").read_bytes() == b"weights"
    assert sorted(p.name for p in weights.folder.rglob("*.txt")) == sorted(
        p.name for p in model_folder.glob("vocabulary/*.txt")
    )
    assert radgraph_weights.label(str(archive)) == radgraph_weights.label(str(model_folder))
    monkeypatch.setattr(radgraph_weights, "_unpack", None)
    assert radgraph_weights.locate(str(archive)) == weights


def test_archives_that_reach_outside_or_are_damaged(model_folder: Path) -> None:
    folder = model_folder.parent
    for name in ("../outside.txt", "/tmp/outside.txt", "vocabulary/../../outside.txt"):
        evil = folder / "evil.tar.gz"
        with tarfile.open(evil, "w:gz") as tar:
            member = tarfile.TarInfo(name)
            member.size = 3
            tar.addfile(member, io.BytesIO(b"bad"))
        with pytest.raises(ModelMissing, match="outside itself; it is damaged or malicious"):
            radgraph_weights.locate(str(evil))
        evil.unlink()
    good = packed(model_folder, folder / "good.tar.gz")
    with tarfile.open(folder / "links.tar", "w") as tar:
        for name in ("config.json", "weights.th"):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member)
    for content, wrong in [
        (good.read_bytes()[:-40], "cannot be unpacked"),
        (b"not an archive", "cannot be unpacked"),
        ((folder / "links.tar").read_bytes(), "there is no config.json and no weights.th and no vocabulary in this"),
    ]:
        good.write_bytes(content)
        assert wrong in (radgraph_weights.missing(str(good)) or "")
    assert not list(folder.rglob("outside*"))
    assert not list((folder / "cache" / "lm_eval_healthcare" / "radgraph").iterdir())


def test_models_that_the_package_has_fetched_are_used(model_folder: Path) -> None:
    assert radgraph_weights.missing("radgraph-xl")
    archive = packed(model_folder, model_folder.parent / "x.tar.gz")
    revision = model_folder.parent / "hub" / "models--StanfordAIMI--RRG_scorers" / "snapshots" / "0123"
    revision.mkdir(parents=True)
    archive.rename(revision / "radgraph-xl.tar.gz")
    (revision.parent.parent / "refs").mkdir()
    (revision.parent.parent / "refs" / "main").write_text("0123")
    from_hub = radgraph_weights.locate("radgraph-xl")
    assert from_hub.kind == "radgraph-xl"
    own = model_folder.parent / "cache" / "radgraph" / "0.1.18" / "radgraph-xl"
    shutil.copytree(model_folder, own)
    assert radgraph_weights.locate("radgraph-xl").folder == own
    assert radgraph_weights.label("radgraph-xl") == radgraph_weights.label(str(model_folder))


def test_the_hub_is_asked_where_it_may_be(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    held = ["radgraph-xl.tar.gz", "README.md"]
    asked: list[str] = []

    def model_info(self: Any, name: str, timeout: float) -> SimpleNamespace:
        asked.append(name)
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=file) for file in held])

    def download(*_: Any, **__: Any) -> str:
        raise OSError("connection reset\nmore")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert radgraph_weights.missing("radgraph-xl") is None
    assert "StanfordAIMI/RRG_scorers on the hub has no radgraph.tar.gz." in (radgraph_weights.missing("radgraph") or "")
    assert asked == ["StanfordAIMI/RRG_scorers"] * 2
    with pytest.raises(ModelMissing, match=r"hf download .* Downloading it failed \(OSError: connection reset\)\.$"):
        radgraph_weights.locate("radgraph-xl")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", download)
    problem = radgraph_weights.missing("radgraph-xl") or ""
    assert problem.endswith("The hub could not be asked (OSError: connection reset).")


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


# The package's own code, with random weights


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = 'pip install "lm-eval-healthcare[radgraph]"'
    radgraph_annotator._repair(pytest.importorskip("radgraph.allennlp.common.cached_transformers", reason=reason))
    from tiny_radgraph import tiny_radgraph

    return tiny_radgraph(tmp_path_factory.mktemp("model") / "radgraph-xl")


@pytest.fixture(scope="module")
def annotate(tiny: Path) -> Callable[[str], Annotated]:
    return radgraph_annotator.annotator(radgraph_weights.locate(str(tiny)), "cpu").annotate


def test_annotations_are_those_of_the_package_as_published(annotate: Callable[[str], Annotated]) -> None:
    # Two reports have no entity; the last is longer than the encoder and goes through it in pieces.
    assert [annotate(report) for report in REPORTS] == [Annotated(found, False) for found in FOUND]


@pytest.mark.parametrize("level", LEVELS)
def test_scores_are_those_of_the_package_as_published(tiny: Path, level: str) -> None:
    rows = TABLE["rewards"]
    predictions, references = ([REPORTS[row[side]] for row in rows] for side in ("prediction", "reference"))
    options = {"radgraph_model": str(tiny), "radgraph_reward": level, "metrics_device": "cpu"}
    assert suite.missing("f1_radgraph", **options) is None
    scores = metrics.score(predictions, references, metrics="f1_radgraph", **options)["f1_radgraph"]
    assert scores.tolist() == [row[level] for row in rows]
    backwards = metrics.score(predictions[::-1], references[::-1], metrics="f1_radgraph", **options)["f1_radgraph"]
    assert backwards.tolist() == scores.tolist()[::-1]
    alone = metrics.score([predictions[3].upper()], [references[3]], metrics="f1_radgraph", **options)["f1_radgraph"]
    assert alone.tolist() == [rows[3][level]]


def test_relations_of_long_reports_are_the_same_in_blocks(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radgraph_annotator, "_PAIRS", 10)
    model = radgraph_annotator.Annotator(radgraph_weights.locate(str(tiny)), "cpu")
    computed = []
    blocks = radgraph_annotator._scores_in_blocks
    monkeypatch.setattr(radgraph_annotator, "_scores_in_blocks", lambda *a: computed.append(1) or blocks(*a))
    assert [model.annotate(report).entities for report in REPORTS] == FOUND
    assert len(computed) == len([report for report in REPORTS if len(report.split()) > 6])


@pytest.mark.parametrize(
    "report",
    [
        "!", "...", "\x07x\x00", "\ufffd", "no \udfff pain", "☃ 🫁🫀 ☃", "שלום עולם", "a" * 300, "\\n",
        "[SEP] [CLS] </s> [PAD]", "##s ##ing", "\\\\f pain", "a b " * 70, " ".join(["chest"] * 150),
    ],
)  # fmt: skip
def test_odd_reports_have_a_score(annotate: Callable[[str], Annotated], tiny: Path, report: str) -> None:
    first = annotate(report)
    assert annotate(report) == first
    assert first.truncated == (len(report) == 300)
    score = metrics.score([report], [report], metrics="f1_radgraph", radgraph_model=str(tiny), metrics_device="cpu")
    assert score["f1_radgraph"].tolist() == [1.0 if annotate(report.lower()).entities else 0.0]


def test_what_is_beyond_the_limit_is_not_seen_and_said_to_be(
    annotate: Callable[[str], Annotated], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(radgraph_annotator, "MAX_WORDS", 100)  # these weights find relations everywhere: slow
    seen = "no pain in chest. " * 20  # five words each
    found = annotate(seen)
    assert not found.truncated
    assert max(entity["end_ix"] for entity in found.entities.values()) == 99
    assert annotate(seen + "blood pressure is high " * 4400) == Annotated(found.entities, True)
    assert annotate(seen + "x") == Annotated(found.entities, True)
    word = annotate("pain in " + "x" * MAX_CHARACTERS)
    assert not word.truncated
    assert annotate("pain in " + "x" * (MAX_CHARACTERS + 1)) == Annotated(word.entities, True)


def test_a_gpu_without_room_is_left(tiny: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    import torch

    model = radgraph_annotator.Annotator(radgraph_weights.locate(str(tiny)), "cpu")
    entities_of = model._entities

    def full(report: str) -> Entities:
        if model._radgraph.device.type == "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return entities_of(report)

    monkeypatch.setattr(model, "_entities", full)
    model._radgraph.device = torch.device("cuda:0")
    assert model.annotate(REPORTS[0]).entities == FOUND[0]
    assert model._radgraph.device.type == "cpu"
    assert "the GPU has no room for a report of 5 words; going on on the CPU" in caplog.text


def test_an_archive_with_the_encoder_beside_it(tiny: Path, machine: Path) -> None:
    archive = packed(tiny, machine / "radgraph-xl.tar.gz")
    shutil.copytree(tiny / "encoder", machine / "encoder")
    options = {"radgraph_model": str(archive), "metrics_device": "cpu"}
    scores = metrics.score([REPORTS[3]], [REPORTS[5]], metrics="f1_radgraph", **options)["f1_radgraph"]
    (row,) = [row for row in TABLE["rewards"] if (row["prediction"], row["reference"]) == (3, 5)]
    assert scores.tolist() == [row["partial"]]


def test_weights_of_another_model(tiny: Path, machine: Path) -> None:
    folder = shutil.copytree(tiny, machine / "radgraph-xl")
    (folder / "weights.th").write_bytes(b"weights")
    assert suite.missing("f1_radgraph", radgraph_model=str(folder)) is None
    with pytest.raises(ModelMissing, match=f"the model in {folder}, with the encoder in .*, cannot be loaded"):
        metrics.score(["a"], ["b"], metrics="f1_radgraph", radgraph_model=str(folder), metrics_device="cpu")


def test_loading_leaves_no_trace(tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import warnings

    before = list(warnings.filters)
    radgraph_annotator.Annotator(radgraph_weights.locate(str(tiny)), "cpu").annotate("fever")
    assert list(warnings.filters) == before
    assert capfd.readouterr().out == ""
