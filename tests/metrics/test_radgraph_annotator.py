"""RadGraph's annotations: the package's own code with random weights, on the CPU and on GPUs that are full."""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics import radgraph_annotator, radgraph_weights, suite
from lm_eval_healthcare.metrics.encoding import device, release_all
from lm_eval_healthcare.metrics.encoding.batches import DoesNotFit
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from lm_eval_healthcare.metrics.radgraph_annotator import MAX_CHARACTERS, Annotated, Annotator
from lm_eval_healthcare.metrics.radgraph_reward import LEVELS
from lm_eval_healthcare.metrics.settings import Compute
from tiny_radgraph import Known, bare_machine, packed

KNOWN = Known()
REPORTS, FOUND = list(KNOWN.reports.values()), list(KNOWN.entities.values())
CPU = Compute(device="cpu")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without internet whose caches are empty."""
    return bare_machine(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = 'pip install "lm-eval-healthcare[radgraph]"'
    radgraph_annotator._repair(pytest.importorskip("radgraph.allennlp.common.cached_transformers", reason=reason))
    from tiny_radgraph import tiny_radgraph

    return tiny_radgraph(tmp_path_factory.mktemp("model") / "radgraph-xl")


@pytest.fixture(scope="module")
def annotate(tiny: Path) -> Callable[[str], Annotated]:
    return loaded(tiny).annotate


def loaded(tiny: Path) -> Annotator:
    return Annotator(radgraph_weights.locate(str(tiny)), CPU)


def test_annotations_are_those_of_the_package_as_published(annotate: Callable[[str], Annotated]) -> None:
    # Two reports have no entity; the last is longer than the encoder and goes through it in pieces.
    assert [annotate(report) for report in REPORTS] == [Annotated(found, False) for found in FOUND]


def test_relations_of_long_reports_are_the_same_in_blocks(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radgraph_annotator, "_PAIRS", 10)
    model = loaded(tiny)
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


def test_an_archive_with_the_encoder_beside_it(tiny: Path, machine: Path) -> None:
    archive = packed(tiny, machine / "radgraph-xl.tar.gz")
    shutil.copytree(tiny / "encoder", machine / "encoder")
    options = {"radgraph_model": str(archive), "metrics_device": "cpu"}
    prediction, reference = "two-sentences", "an-article-more"
    texts = [KNOWN.reports[prediction]], [KNOWN.reports[reference]]
    scores = metrics.score(*texts, metrics="f1_radgraph", **options)["f1_radgraph"]
    assert scores.tolist() == [KNOWN.rewards["partial"][prediction, reference]]


def test_weights_of_another_model(tiny: Path, machine: Path) -> None:
    folder = shutil.copytree(tiny, machine / "radgraph-xl")
    (folder / "weights.th").write_bytes(b"weights")
    assert suite.missing("f1_radgraph", radgraph_model=str(folder)) is None
    with pytest.raises(ModelMissing, match=f"the model in {folder}, with the encoder in .*, cannot be loaded"):
        metrics.score(["a"], ["b"], metrics="f1_radgraph", radgraph_model=str(folder), metrics_device="cpu")


def test_loading_leaves_no_trace(tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import warnings

    before = list(warnings.filters)
    loaded(tiny).annotate("fever")
    assert list(warnings.filters) == before
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("level", LEVELS)
def test_scores_are_those_of_the_package_as_published(tiny: Path, level: str) -> None:
    known = KNOWN.rewards[level]
    predictions, references = ([KNOWN.reports[pair[side]] for pair in known] for side in (0, 1))
    options = {"radgraph_model": str(tiny), "radgraph_reward": level, "metrics_device": "cpu"}
    assert suite.missing("f1_radgraph", **options) is None
    scores = metrics.score(predictions, references, metrics="f1_radgraph", **options)["f1_radgraph"]
    assert scores.tolist() == list(known.values())
    backwards = metrics.score(predictions[::-1], references[::-1], metrics="f1_radgraph", **options)["f1_radgraph"]
    assert backwards.tolist() == scores.tolist()[::-1]
    alone = metrics.score([predictions[3].upper()], [references[3]], metrics="f1_radgraph", **options)["f1_radgraph"]
    assert alone.tolist() == [list(known.values())[3]]


class Gpu:
    """Stands for a GPU: a model that is there computes on the CPU unless `fails` says that the report is too much."""

    def __init__(self) -> None:
        self.free, self.loads = 70 * 2**30, 0
        self.full_on_arrival = False
        self.fails: set[str] = set()
        self.moves: list[str] = []
        self.places: list[str] = []


@pytest.fixture
def gpu(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """A machine with one."""
    import torch

    pretended = Gpu()
    entities_of, load = Annotator._entities, radgraph_annotator._load

    def move(self: Annotator, where: str) -> None:
        pretended.moves.append(where)
        self.device = where
        if where != "cpu" and pretended.full_on_arrival:
            raise torch.OutOfMemoryError("CUDA out of memory")

    def entities(self: Annotator, text: str) -> dict[str, Any]:
        pretended.places.append(self.device)
        if self.device != "cpu" and text in pretended.fails:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return entities_of(self, text)

    def count(weights: Any) -> Any:
        pretended.loads += 1
        return load(weights)

    monkeypatch.setattr(Annotator, "_move", move)
    monkeypatch.setattr(Annotator, "_entities", entities)
    monkeypatch.setattr(radgraph_annotator, "_load", count)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (pretended.free, 80 * 2**30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda index: 0)
    monkeypatch.setattr(device, "_told", set())
    release_all()
    yield pretended
    release_all()


def score(tiny: Path, reports: list[str] = REPORTS, **options: Any) -> list[float]:
    """The scores of each report for itself."""
    options = {"radgraph_model": str(tiny), **options}
    return metrics.score(reports, reports, metrics="f1_radgraph", **options)["f1_radgraph"].tolist()


EXPECTED = [KNOWN.rewards["partial"][name, name] for name in KNOWN.reports]


def test_the_model_stays_on_the_gpu_that_it_fills(gpu: Gpu, tiny: Path) -> None:
    for free in (70, 1, 0):  # GiB; a report may need one, and a half is kept free
        gpu.free = free * 2**30
        assert score(tiny) == EXPECTED
    assert set(gpu.places) == {"cuda:0"}
    assert gpu.moves == ["cuda:0"]
    assert gpu.loads == 1


def test_a_gpu_that_has_room_by_now_is_used_without_loading_again(gpu: Gpu, tiny: Path) -> None:
    gpu.free = 2**30
    assert score(tiny) == EXPECTED
    assert set(gpu.places) == {"cpu"}
    gpu.free = 2 * 2**30
    gpu.places.clear()
    assert score(tiny) == EXPECTED
    assert set(gpu.places) == {"cuda:0"}
    assert gpu.loads == 1


def test_weights_that_change_on_disk_are_loaded_again(gpu: Gpu, tiny: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "radgraph-xl")
    score(folder, REPORTS[:1])
    vocabulary = folder / "encoder" / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text() + "more\n")
    score(folder, REPORTS[:1])
    assert gpu.loads == 2


def test_a_report_that_does_not_fit_sends_the_rest_to_the_cpu(gpu: Gpu, tiny: Path, caplog: Any) -> None:
    gpu.fails = {REPORTS[3]}
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert score(tiny) == EXPECTED
    assert gpu.places == [*["cuda:0"] * 4, *["cpu"] * 4] * 2
    [record] = caplog.records
    words = len(loaded(tiny)._words(REPORTS[3]))
    assert record.getMessage() == (
        f"f1_radgraph: a report of {words} words does not fit into the GPU (CUDA out of memory): going on with the "
        "CPU, which takes longer"
    )


def test_a_gpu_asked_for_by_name_is_not_left(gpu: Gpu, tiny: Path) -> None:
    gpu.fails = {REPORTS[3]}
    with pytest.raises(DoesNotFit, match=r"a report of \d+ words does not fit into the GPU .* Use metrics_device=auto"):
        score(tiny, metrics_device="cuda")
    gpu.free = 0
    release_all()
    with pytest.raises(device.DeviceUnavailable, match=r"metrics_device=cuda: GPU 0 has 0.0 GiB free"):
        score(tiny, metrics_device="cuda")


def test_a_gpu_that_fills_up_while_the_weights_arrive(gpu: Gpu, tiny: Path, caplog: Any) -> None:
    gpu.full_on_arrival = True
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert score(tiny) == EXPECTED
    assert gpu.moves == ["cuda:0", "cpu"] * 2
    assert set(gpu.places) == {"cpu"}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_products_have_all_their_digits(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: the network runs inside the context that forbids TF32 on the model's device."""
    inside: list[str] = []
    seen: list[list[str]] = []

    @contextlib.contextmanager
    def full_precision(place: str) -> Iterator[None]:
        inside.append(place)
        yield
        inside.pop()

    monkeypatch.setattr(radgraph_annotator, "full_precision", full_precision)
    model = loaded(tiny)
    model._radgraph.model.register_forward_pre_hook(lambda *_: seen.append(list(inside)))
    model.annotate(REPORTS[0])
    assert seen == [["cpu"]]
    assert inside == []
