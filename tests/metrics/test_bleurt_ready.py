"""BLEURT before the run: what is lacking is told without reading weights, what is on the hub is fetched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiny_bleurt as tiny
from lm_eval_healthcare.metrics import bleurt, suite
from lm_eval_healthcare.metrics.bleurt_checkpoint import CheckpointError
from lm_eval_healthcare.metrics.encoding import release_all
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from tiny_encoders import tiny_bert

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

METRIC = bleurt.Bleurt()
FORMS = [(plain, store) for plain in (False, True) for store in ("bin", "safetensors", "shards")]


@pytest.fixture
def no_weights_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing give a tensor with numbers in it."""
    import safetensors
    import transformers.modeling_utils  # noqa: F401 -- it must find the real ones

    original = torch.load
    real_open = safetensors.safe_open

    def load(path: Any, **options: Any) -> Any:
        assert options["map_location"] == "meta"
        return original(path, **options)

    class Header:
        def __init__(self, *given: Any, **options: Any) -> None:
            self.file = real_open(*given, **options)

        def __enter__(self) -> Header:
            return self

        def __exit__(self, *_: Any) -> None:
            pass

        def keys(self) -> list[str]:
            return list(self.file.keys())

        def get_slice(self, name: str) -> Any:
            return SimpleNamespace(get_shape=self.file.get_slice(name).get_shape)

    monkeypatch.setattr(torch, "load", load)
    monkeypatch.setattr(safetensors, "safe_open", Header)


@pytest.mark.usefixtures("no_weights_read")
@pytest.mark.parametrize("kind", ["bert", "rembert"])
@pytest.mark.parametrize(("plain", "store"), FORMS)
def test_nothing_is_missing_of_a_checkpoint_in_any_form(tmp_path: Path, kind: str, plain: bool, store: str) -> None:
    folder = tiny.tiny_bleurt(tmp_path, kind, plain=plain, store=store)
    assert METRIC.missing(bleurt_model=str(folder)) is None
    METRIC.prepare(bleurt_model=str(folder))


@pytest.mark.usefixtures("no_weights_read")
@pytest.mark.parametrize(
    ("store", "file"),
    [
        ("safetensors", "model.safetensors"),
        ("bin", "pytorch_model.bin"),
        ("shards", "pytorch_model-00002-of-00002.bin"),
    ],
)
def test_half_a_file_is_told(tmp_path: Path, store: str, file: str) -> None:
    folder = tiny.tiny_bleurt(tmp_path, store=store)
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: len(content) // 2])
    problem = METRIC.missing(bleurt_model=str(folder)) or ""
    assert problem.startswith(f"bleurt_model={folder}: {file} was cut short ({len(content) // 2:,} ")
    assert problem.endswith("; fetch it again")
    with pytest.raises(CheckpointError, match="was cut short"):
        METRIC.prepare(bleurt_model=str(folder))


def test_half_a_file_as_pytorch_wrote_before_1_6_is_told(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    path = folder / "pytorch_model.bin"
    tensors = {name: torch.from_numpy(array) for name, array in tiny.load(folder).items()}
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    assert METRIC.missing(bleurt_model=str(folder)) is None
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert f"{path} cannot be read as weights (RuntimeError: " in (METRIC.missing(bleurt_model=str(folder)) or "")


@pytest.mark.usefixtures("no_weights_read")
def test_a_bert_that_is_no_bleurt_is_told(tmp_path: Path) -> None:
    """It has the tensors of an encoder, and no more: those of the head are lacking."""
    problem = METRIC.missing(bleurt_model=str(tiny_bert(tmp_path))) or ""
    assert "classifier.bias, classifier.weight" in problem
    assert (
        "A BLEURT checkpoint is a BERT or RemBERT encoder with a pooler and a linear layer with one output" in problem
    )


@pytest.mark.parametrize("store", ["safetensors", "bin"])
def test_a_classifier_of_three_classes_is_told(tmp_path: Path, store: str) -> None:
    folder = tiny.tiny_bleurt(tmp_path, plain=True)
    arrays = tiny.load(folder)
    (folder / "pytorch_model.bin").unlink()
    arrays["classifier.weight"] = np.zeros((3, tiny.HIDDEN), dtype=np.float32)
    tiny.save(folder, arrays, store)
    problem = METRIC.missing(bleurt_model=str(folder)) or ""
    assert "it has classifier.weight of shape (3, 32) where (1, 32) is expected" in problem


@pytest.mark.parametrize(("field", "value"), [("num_attention_heads", 5), ("hidden_size", "wide"), ("vocab_size", -3)])
def test_a_configuration_of_no_network_is_told(tmp_path: Path, field: str, value: Any) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {field: value}))
    problem = METRIC.missing(bleurt_model=str(folder)) or ""
    assert str(folder) in problem
    assert "etch it again" in problem


def test_what_else_is_missing_is_told(tmp_path: Path) -> None:
    told = str(METRIC.missing())
    assert told.startswith("bleurt: model 'lucadiliello/bleurt-base-512' is not on this machine")
    assert told.endswith("(The option is bleurt_model.)")
    assert "lucadiliello/BLEURT-20" in str(METRIC.missing(languages=("es",)))
    assert "there is no config.json" in str(METRIC.missing(bleurt_model=str(tmp_path)))
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert "is in TensorFlow's format" in str(METRIC.missing(bleurt_model=str(tmp_path)))
    folder = tiny.tiny_bleurt(tmp_path / "x", "rembert")
    (folder / "spm.model").rename(folder / "tokenizer.json")
    assert "no SentencePiece model" in str(METRIC.missing(bleurt_model=str(folder)))
    folder = tiny.tiny_bleurt(tmp_path / "y")
    (folder / "vocab.txt").unlink()
    assert "there is no tokenizer" in str(METRIC.missing(bleurt_model=str(folder)))
    (folder / "config.json").write_text("{")
    (folder / "vocab.txt").write_text("[CLS]")
    assert "config.json cannot be read as JSON" in str(METRIC.missing(bleurt_model=str(folder)))
    with pytest.raises(ValueError, match="metrics_dtype=int8"):
        METRIC.missing(metrics_dtype="int8")
    with pytest.raises(ValueError, match="bleurt_model= is empty"):
        METRIC.missing(bleurt_model=" ")


class Hub:
    """A hub with one model, into whose cache it is copied when it is downloaded."""

    def __init__(self, model: Path, cache: Path) -> None:
        self.model, self.cache, self.calls = model, cache, list[str]()

    def model_info(self, name: str, **_: Any) -> SimpleNamespace:
        self.calls.append(f"asked for {name}")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=path.name) for path in self.model.iterdir()])

    def snapshot_download(self, name: str, allow_patterns: list[str], **_: Any) -> str:
        self.calls.append(f"fetched {name}")
        snapshot = self.cache / f"models--{name.replace('/', '--')}" / "snapshots" / "0123"
        snapshot.mkdir(parents=True)
        for file in allow_patterns:
            shutil.copyfile(self.model / file, snapshot / file)
        (snapshot.parent.parent / "refs").mkdir()
        (snapshot.parent.parent / "refs" / "main").write_text("0123")
        return str(snapshot)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    import huggingface_hub

    found = Hub(tiny.tiny_bleurt(tmp_path / "there", "rembert"), tmp_path / "cache")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(found.cache))
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda self, name, **options: found.model_info(name))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", found.snapshot_download)
    yield found
    release_all()


def test_the_checkpoint_is_fetched_before_the_run_and_not_while_scoring(hub: Hub) -> None:
    options = {"bleurt_model": "me/tiny", "metrics_device": "cpu"}
    assert suite.missing("bleurt", **options) is None
    assert hub.calls == ["asked for me/tiny"]
    assert "model:tiny@absent" in METRIC.signature(**options)
    suite.prepare("bleurt", **options)
    assert hub.calls == ["asked for me/tiny"] * 2 + ["fetched me/tiny"]
    hub.calls.clear()
    suite.prepare("bleurt", **options)
    score = METRIC.score(["fever"], ["cough"], **options)
    assert hub.calls == []
    assert score == METRIC.score(["fever"], ["cough"], bleurt_model=str(hub.model), metrics_device="cpu")
    assert "@absent" not in METRIC.signature(**options)


def test_what_is_fetched_and_of_no_use_is_told_before_the_run(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads((hub.model / "config.json").read_text())
    (hub.model / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    with pytest.raises(CheckpointError, match=r"does not fit its config\.json"):
        suite.prepare("bleurt", bleurt_model="me/tiny")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelMissing, match="must not use the network"):
        suite.prepare("bleurt", bleurt_model="me/other")
