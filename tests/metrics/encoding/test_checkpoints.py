from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_hub import Hub, into_cache
from lm_eval_healthcare.metrics.encoding import checkpoints, fingerprints
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from tiny_encoders import tiny_bert, tiny_rembert, tiny_roberta

pytest.importorskip("huggingface_hub")


def test_names_and_revisions(tmp_path: Path) -> None:
    assert checkpoints.parse("roberta-large") == ("roberta-large", None)
    assert checkpoints.parse("microsoft/deberta-large@v1") == ("microsoft/deberta-large", "v1")
    (tmp_path / "a@b").mkdir()
    assert checkpoints.parse(str(tmp_path / "a@b")) == (str(tmp_path / "a@b"), None)


def test_short_names(tmp_path: Path, hub_cache: Path) -> None:
    assert checkpoints.short_name("FacebookAI/roberta-large@main") == "roberta-large"
    folder = tiny_bert(tmp_path / "models" / "my-bert")
    assert checkpoints.short_name(f"{folder}/") == "my-bert"
    assert checkpoints.short_name(str(into_cache(folder, hub_cache, "me/my-bert"))) == "my-bert"


@pytest.mark.usefixtures("no_network")
def test_a_folder_is_found_and_named_by_what_is_in_it(tmp_path: Path) -> None:
    one, other = tiny_bert(tmp_path / "a" / "tiny"), tiny_bert(tmp_path / "b" / "tiny")
    assert checkpoints.locate(str(one)) == one
    assert checkpoints.missing(str(one)) is None
    assert checkpoints.fingerprint(one) == checkpoints.fingerprint(other)
    assert checkpoints.label(str(one)) == f"bert-3x32@{checkpoints.fingerprint(one)}"
    renamed = one.with_name("another-name")
    renamed.symlink_to(one)
    assert checkpoints.label(str(renamed)) == checkpoints.label(str(one))
    changed = tiny_bert(tmp_path / "c" / "tiny", layer_norm_eps=1e-5)
    assert checkpoints.fingerprint(changed) != checkpoints.fingerprint(one)
    (other / "README.md").write_text("notes")
    assert checkpoints.fingerprint(one) == checkpoints.fingerprint(other)
    with (other / "vocab.txt").open("a") as stream:
        stream.write("more\n")
    assert checkpoints.fingerprint(one) != checkpoints.fingerprint(other)


def test_large_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(2**20 + 1))
    # sha256 of 1,048,577 zero bytes, by `head -c 1048577 /dev/zero | sha256sum`
    first = fingerprints.sha256_of(path)
    assert first == "2cb74edba754a81d121c9db6833704a8e7d417e5b13d1a19f4a52f007d644264"
    monkeypatch.setattr(fingerprints, "_known", {})  # as in a new process
    monkeypatch.setattr(fingerprints.hashlib, "sha256", lambda: pytest.fail("read again"))
    assert fingerprints.sha256_of(path) == first
    monkeypatch.undo()
    path.write_bytes(bytes(2**20 + 2))
    assert fingerprints.sha256_of(path) != first


def test_a_cache_folder_that_cannot_be_written_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(2**20 + 1))
    assert len(fingerprints.sha256_of(path)) == 64
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fingerprints._file().parent.mkdir()
    fingerprints._file().write_text("[broken")
    monkeypatch.setattr(fingerprints, "_known", {})
    assert len(fingerprints.sha256_of(path)) == 64


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("asked", ["me/tiny", "me/tiny@main"])
def test_the_hubs_cache_is_found_offline(tmp_path: Path, hub_cache: Path, asked: str) -> None:
    folder = tiny_roberta(tmp_path / "tiny")
    snapshot = into_cache(folder, hub_cache, "me/tiny")
    assert checkpoints.locate(asked) == snapshot
    assert checkpoints.missing(asked) is None
    assert checkpoints.label(asked) == f"roberta-3x32@{checkpoints.fingerprint(folder)}"
    assert checkpoints.missing("me/tiny@other") is not None


@pytest.mark.usefixtures("no_network")
def test_a_bare_name_is_found_under_its_owners(tmp_path: Path, hub_cache: Path) -> None:
    snapshot = into_cache(tiny_roberta(tmp_path / "tiny"), hub_cache, "FacebookAI/roberta-large")
    assert checkpoints.locate("roberta-large") == snapshot
    assert checkpoints.label("roberta-large").startswith("roberta-3x32@")


@pytest.mark.usefixtures("no_network", "hub_cache")
@pytest.mark.parametrize("model", ["roberta-large", "me/tiny@v2"])
def test_offline_a_missing_model_is_told_without_asking_the_hub(model: str) -> None:
    text = checkpoints.missing(model)
    assert text is not None
    for part in (repr(model), "HF_HUB_OFFLINE", "hub's cache", f"hf download {model.partition('@')[0]}", "its path"):
        assert part in text
    with pytest.raises(ModelMissing, match="is not on this machine"):
        checkpoints.locate(model)
    assert checkpoints.label(model) == f"{checkpoints.short_name(model)}@absent"


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("model", ["/no/such/folder", "./models/x", "a/b/c", "has space", "x" * 5000, "nul\0"])
def test_what_is_neither_a_folder_nor_a_name_of_the_hub(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    text = checkpoints.missing(model)
    assert text is not None
    assert "there is no such folder" in text
    with pytest.raises(ModelMissing, match="Give the folder that holds"):
        checkpoints.locate(model)


def broken(folder: Path, how: str) -> None:
    if how == "nothing":
        for path in folder.iterdir():
            path.unlink()
    elif how == "weights":
        (folder / "model.safetensors").unlink()
    elif how == "tokenizer":
        (folder / "vocab.txt").unlink()
    elif how == "pointer":
        (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    elif how == "part":
        index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("nothing", "there is no config.json"),
        ("weights", "there are no complete weights"),
        ("tokenizer", "there is no tokenizer"),
        ("pointer", "model.safetensors is only a pointer of Git LFS"),
        ("part", "there are no complete weights"),
    ],
)
def test_an_incomplete_folder_says_what_it_lacks(tmp_path: Path, how: str, told: str) -> None:
    folder = tiny_bert(tmp_path / "tiny")
    broken(folder, how)
    with pytest.raises(ModelMissing, match=told):
        checkpoints.locate(str(folder))
    assert told in str(checkpoints.missing(str(folder)))


@pytest.mark.usefixtures("no_network")
def test_other_files_may_be_asked_for(tmp_path: Path) -> None:
    folder = tiny_rembert(tmp_path / "tiny")
    assert checkpoints.locate(str(folder), needs=("config.json", "spm.model")) == folder
    with pytest.raises(ModelMissing, match=r"there is no bleurt_config\.json and no x\.txt"):
        checkpoints.locate(str(folder), needs=("config.json", "bleurt_config.json", "x.txt"))


def test_online_only_the_files_that_are_needed_are_downloaded(hub: Hub) -> None:
    assert checkpoints.missing("me/tiny") is None
    assert hub.downloaded == []
    folder = checkpoints.locate("me/tiny")
    assert sorted(hub.downloaded) == [
        "config.json", "merges.txt", "model.safetensors", "tokenizer_config.json", "vocab.json",
    ]  # fmt: skip
    assert checkpoints.locate("me/tiny") == folder
    assert len(hub.downloaded) == 5


def test_the_hub_is_asked_once_for_all_tasks_and_again_after_a_refusal(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    refusals = set()
    for now[0], asked in ((1000.0, 2), (1059.0, 2), (1061.0, 3), (1200.0, 4)):
        assert checkpoints.missing("me/tiny") is None
        refusals.add(checkpoints.missing("me/other"))
        assert hub.asked == asked
    assert len(refusals) == 1
    assert checkpoints.missing("me/tiny", needs=("config.json", "spm.model")) is not None


def test_online_a_name_that_the_hub_does_not_know_is_told(hub: Hub) -> None:
    assert "The hub could not be asked (OSError: 404 for me/other)." in str(checkpoints.missing("me/other"))
    with pytest.raises(ModelMissing, match=r"Downloading it failed \(OSError: 404 for me/other\)"):
        checkpoints.locate("me/other")


def test_online_a_model_without_weights_for_pytorch_is_told(hub: Hub) -> None:
    hub.files = ["config.json", "tf_model.h5", "vocab.txt"]
    assert "has no weights for PyTorch" in str(checkpoints.missing("me/tiny"))
    with pytest.raises(ModelMissing, match="has no weights for PyTorch"):
        checkpoints.locate("me/tiny")


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["model.safetensors", "pytorch_model.bin"], {"model.safetensors"}),
        (
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"],
            {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"},
        ),
        (["pytorch_model.bin", "model.onnx"], {"pytorch_model.bin"}),
    ],
)
def test_one_form_of_weights_is_chosen(files: list[str], chosen: set[str]) -> None:
    wanted = checkpoints._wanted(["config.json", "spiece.model", *files], ("config.json",), "me/tiny")
    assert set(wanted) == {"config.json", "spiece.model", *chosen}


def test_configurations_are_read_without_loading_anything(tmp_path: Path, tiny: Callable[[str], Path]) -> None:
    assert (checkpoints.configuration(str(tiny("bert"))) or {})["num_hidden_layers"] == 3
    assert checkpoints.configuration("/no/such/folder") is None
