"""BLEURT checkpoints in every form, against the network written out in numpy."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_bleurt as tiny
from lm_eval_healthcare.metrics.bleurt_checkpoint import Checkpoint, CheckpointError, convert, load
from lm_eval_healthcare.metrics.bleurt_tokens import VocabularyError
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

KINDS = ("bert", "rembert")
FORMS = [(plain, store) for plain in (False, True) for store in ("bin", "safetensors", "shards")]
IDS = np.array([2, 40, 51, 9, 3, 40, 60, 61, 62, 3])
TYPES = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])


def output(model: Any, ids: np.ndarray = IDS, types: np.ndarray = TYPES) -> float:
    with torch.no_grad():
        out = model(input_ids=torch.tensor(ids[None]), token_type_ids=torch.tensor(types[None]))
    return out.logits[0, 0].item()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("plain", "store"), FORMS)
def test_every_form_gives_the_network_written_out(tmp_path: Path, kind: str, plain: bool, store: str) -> None:
    expected = tiny.network(tiny.load(tiny.tiny_bleurt(tmp_path / "published", kind)), IDS, TYPES)
    folder = tiny.tiny_bleurt(tmp_path / "other", kind, plain=plain, store=store)
    model = load(Checkpoint.of(str(folder)))
    assert output(model) == pytest.approx(expected, abs=2e-6)
    assert not model.training
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("kind", KINDS)
def test_the_linear_head(tmp_path: Path, kind: str) -> None:
    """With W = 0 in the pooler, tanh(b) reaches the head: 0.5 + 3 tanh(0.25) - 2 tanh(-1) = 2.7579447."""
    folder = tiny.tiny_bleurt(tmp_path, kind)
    arrays = tiny.load(folder)
    arrays["bleurt.pooler.dense.weight"][:] = 0
    arrays["bleurt.pooler.dense.bias"][:] = [0.25, -1.0] + [0.7] * (tiny.HIDDEN - 2)
    arrays["classifier.weight"][:] = [3.0, -2.0] + [0.0] * (tiny.HIDDEN - 2)
    arrays["classifier.bias"][:] = 0.5
    tiny.save(folder, arrays, "bin")
    assert output(load(Checkpoint.read(folder))) == pytest.approx(2.7579447, abs=1e-6)


def test_half_precision_files_are_computed_in_float32(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    arrays = tiny.load(folder)
    halves = {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in arrays.items()}
    tiny.save(folder, halves, "bin")
    model = load(Checkpoint.read(folder))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert output(model) == pytest.approx(tiny.network(halves, IDS, TYPES), abs=2e-6)


def broken(folder: Path, kind: str, change: Any) -> Checkpoint:
    tiny.tiny_bleurt(folder, kind)
    arrays = tiny.load(folder)
    change(arrays)
    tiny.save(folder, arrays, "bin")
    return Checkpoint.read(folder)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    checkpoint = broken(tmp_path, "bert", lambda arrays: arrays.pop("bleurt.pooler.dense.bias"))
    with pytest.raises(CheckpointError, match=r"it lacks bert\.pooler\.dense\.bias\. A BLEURT checkpoint is"):
        load(checkpoint)


def test_a_checkpoint_without_a_head_names_it(tmp_path: Path) -> None:
    def encoder_alone(arrays: tiny.Arrays) -> None:
        for name in [name for name in arrays if "classifier" in name or "pooler" in name]:
            del arrays[name]

    with pytest.raises(CheckpointError, match=r"lacks classifier\.bias, classifier\.weight, rembert\.pooler\.dense"):
        load(broken(tmp_path, "rembert", encoder_alone))


def test_an_unexpected_tensor_is_named_as_the_file_names_it(tmp_path: Path) -> None:
    extra = np.zeros((1,), dtype=np.float32)
    checkpoint = broken(tmp_path, "rembert", lambda arrays: arrays.update({"bleurt.encoder.layer.9.x": extra}))
    with pytest.raises(CheckpointError, match=r"it has bleurt\.encoder\.layer\.9\.x too many"):
        load(checkpoint)


def test_layers_that_config_does_not_know_are_counted(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    with pytest.raises(CheckpointError, match=r"bleurt\.encoder\.layer\.1\..* and 27 more too many"):
        load(Checkpoint.read(folder))  # two layers of 16 tensors, 5 of the 32 named


def test_a_wrong_shape_is_told(tmp_path: Path) -> None:
    checkpoint = broken(
        tmp_path, "bert", lambda arrays: arrays.update({"classifier.weight": np.zeros((2, 32), dtype=np.float32)})
    )
    with pytest.raises(CheckpointError, match=r"has classifier\.weight of shape \(2, 32\) where \(1, 32\) is expected"):
        load(checkpoint)


class Surprise:
    """What must not be run when weights are read."""

    def __reduce__(self) -> Any:
        return print, ("this ran",)


def test_a_file_with_code_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    torch.save({"classifier.bias": Surprise()}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin cannot be read as weights"):
        load(Checkpoint.read(folder))
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"classifier.bias": Surprise()}, protocol=2))
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin cannot be read as weights"):
        load(Checkpoint.read(folder))
    assert "this ran" not in capsys.readouterr().out


@pytest.mark.parametrize("store", ["bin", "safetensors"])
def test_a_file_cut_short_is_told(tmp_path: Path, store: str) -> None:
    folder = tiny.tiny_bleurt(tmp_path, store=store)
    path = folder / {"bin": "pytorch_model.bin", "safetensors": "model.safetensors"}[store]
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(CheckpointError, match=rf"{path.name} (was cut short|is not a whole file) .*; fetch it again"):
        load(Checkpoint.read(folder))


def test_a_missing_part_is_told(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path, store="shards")
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(CheckpointError, match=r"lacks pytorch_model-00002-of-00002\.bin, which .*index\.json names"):
        load(Checkpoint.read(folder))
    with pytest.raises(ModelMissing, match="no complete weights"):
        Checkpoint.of(str(folder))


def test_parts_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path / "here", store="shards")
    index = json.loads((folder / "pytorch_model.bin.index.json").read_text())
    tiny.tiny_bleurt(tmp_path)
    index["weight_map"] = dict.fromkeys(index["weight_map"], "../pytorch_model.bin")
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=r"lacks pytorch_model\.bin, which"):
        load(Checkpoint.read(folder))


@pytest.mark.parametrize(
    ("name", "config", "tokenizer", "expected"),
    [
        ("bleurt-base-512", {}, {}, 512),
        ("bleurt-base-128", {}, {}, 128),
        ("lucadiliello/bleurt-large-128", {}, {"model_max_length": 10**30}, 128),
        ("BLEURT-20", {}, {}, 512),
        ("mine", {"max_seq_length": 200}, {"model_max_length": 100}, 200),
        ("mine", {}, {"model_max_length": 100}, 100),
        ("mine", {}, {"model_max_length": int(1e30)}, 512),
        ("mine", {"max_seq_length": 4096}, {}, 512),
    ],
)
def test_how_many_tokens_it_takes(tmp_path: Path, name: str, config: Any, tokenizer: Any, expected: int) -> None:
    folder = tiny.tiny_bleurt(tmp_path, positions=512)
    given = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps(given))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    checkpoint = Checkpoint.read(folder, name)
    assert checkpoint.max_length == expected
    assert checkpoint.room == expected - 3


def test_other_models_are_refused(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    (folder / "config.json").write_text('{"model_type": "roberta"}')
    with pytest.raises(CheckpointError, match=r"of type 'roberta'; a BLEURT checkpoint is of type bleurt, bert or"):
        Checkpoint.of(str(folder))
    (folder / "config.json").unlink()
    (folder / "saved_model.pb").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"in TensorFlow's format.* give the PyTorch version"):
        Checkpoint.of(str(folder))
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read as JSON"):
        Checkpoint.read(folder)


def test_a_model_without_token_types_is_refused(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"type_vocab_size": 1}))
    with pytest.raises(CheckpointError, match="knows one kind of text only"):
        Checkpoint.read(folder)


def test_a_model_for_four_tokens_is_refused(tmp_path: Path) -> None:
    folder = tiny.tiny_bleurt(tmp_path, positions=4)
    with pytest.raises(CheckpointError, match=r"takes 4 tokens; a pair of texts needs at least 5"):
        Checkpoint.read(folder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plain", [False, True])
def test_convert_writes_a_folder_with_the_same_scores(tmp_path: Path, kind: str, plain: bool) -> None:
    import transformers

    source = tiny.tiny_bleurt(tmp_path / "source", kind, plain=plain, store="shards")
    target = convert(source, tmp_path / "new" / "target")
    assert target == tmp_path / "new" / "target"
    assert [path.name for path in target.parent.iterdir()] == ["target"]
    ours, written = load(Checkpoint.of(str(source))), load(Checkpoint.of(str(target)))
    assert output(written) == output(ours)
    assert (target / "model.safetensors").is_file()
    class_ = getattr(transformers, {"bert": "Bert", "rembert": "RemBert"}[kind] + "ForSequenceClassification")
    by_transformers = class_.from_pretrained(target, local_files_only=True).eval()
    assert output(by_transformers) == pytest.approx(output(ours), abs=1e-6)
    text = "mild fever and a dry cough"
    tokens = [Checkpoint.of(str(folder)).subwords().ids(text).tolist() for folder in (source, target)]
    assert tokens[0] == tokens[1] != []


def test_convert_keeps_the_length_of_a_published_name(tmp_path: Path) -> None:
    source = tiny.tiny_bleurt(tmp_path / "bleurt-tiny-128", positions=512)
    (source / "tokenizer_config.json").write_text("{}")
    assert Checkpoint.of(str(convert(source, tmp_path / "mine"))).max_length == 128


def test_convert_with_another_activation(tmp_path: Path) -> None:
    source = tiny.tiny_bleurt(tmp_path / "source")
    exact = output(load(Checkpoint.read(source)))
    other = output(load(Checkpoint.read(convert(source, tmp_path / "target", hidden_act="gelu_pytorch_tanh"))))
    assert other != exact
    assert other == pytest.approx(exact, abs=0.02)


def test_convert_overwrites_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    source = tiny.tiny_bleurt(tmp_path / "source")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    with pytest.raises(CheckpointError, match=r"is not an empty folder; choose another target"):
        convert(source, tmp_path / "full")
    (tmp_path / "empty").mkdir()
    arrays = tiny.load(source)
    del arrays["classifier.bias"]
    tiny.save(source, arrays, "bin")
    with pytest.raises(CheckpointError, match=r"lacks classifier\.bias"):
        convert(source, tmp_path / "empty")
    (source / "vocab.txt").unlink()
    with pytest.raises(VocabularyError, match=r"neither vocab\.txt nor tokenizer\.json"):
        Checkpoint.read(source).subwords()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full", "source"]
    with pytest.raises(ModelMissing, match="no-such-folder"):
        convert(tmp_path / "no-such-folder", tmp_path / "target")
