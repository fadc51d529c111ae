"""RadGraph's weights: a folder, an archive, the caches of the machine, the hub."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lm_eval_healthcare.metrics import radgraph_weights, suite
from lm_eval_healthcare.metrics.encoding.checkpoints import ModelMissing
from tiny_radgraph import bare_machine, packed, write_files


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


def name_encoder(folder: Path, name: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    for part in (config["model"]["embedder"]["token_embedders"], config["dataset_reader"]["token_indexers"]):
        part["bert"]["model_name"] = name
    (folder / "config.json").write_text(json.dumps(config))


def test_the_encoder_is_missing(model_folder: Path) -> None:
    name_encoder(model_folder, "some/encoder")
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


class Hub:
    """A hub with an archive and its encoder, which it puts into the cache as the hub's library does."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.archive, self.encoder, self.cache = folder / "x.tar.gz", folder / "elsewhere", cache
        self.calls: list[str] = []

    def model_info(self, name: str, **_: Any) -> SimpleNamespace:
        self.calls.append(f"asked for {name}")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=n) for n in ("radgraph-xl.tar.gz", "config.json")])

    def hf_hub_download(self, name: str, file: str, **_: Any) -> str:
        self.calls.append(f"fetched {file} of {name}")
        return str(shutil.copyfile(self.archive, self.snapshot(name) / file))

    def snapshot_download(self, name: str, **_: Any) -> str:
        self.calls.append(f"fetched {name}")
        return str(shutil.copytree(self.encoder, self.snapshot(name), dirs_exist_ok=True))

    def snapshot(self, name: str) -> Path:
        folder = self.cache / f"models--{name.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text("0123")
        (folder / "snapshots" / "0123").mkdir(parents=True)
        return folder / "snapshots" / "0123"


@pytest.fixture
def hub(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """What is on the hub is not on the machine, which may ask it."""
    import huggingface_hub

    name_encoder(model_folder, "some/encoder")
    (model_folder / "encoder").rename(model_folder.parent / "elsewhere")
    found = Hub(model_folder.parent, model_folder.parent / "hub")
    packed(model_folder, found.archive)
    shutil.rmtree(model_folder)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda self, name, **options: found.model_info(name))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", found.hf_hub_download)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", found.snapshot_download)
    return found


def test_weights_and_encoder_are_fetched_before_the_run_and_not_while_scoring(hub: Hub) -> None:
    assert radgraph_weights.missing("radgraph-xl") is None
    assert hub.calls == ["asked for StanfordAIMI/RRG_scorers"]
    hub.calls.clear()
    suite.prepare("f1_radgraph", radgraph_model="radgraph-xl")
    assert hub.calls == ["fetched radgraph-xl.tar.gz of StanfordAIMI/RRG_scorers", "fetched some/encoder"]
    hub.calls.clear()
    suite.prepare("f1_radgraph")
    assert radgraph_weights.missing("radgraph-xl") is None
    assert radgraph_weights.locate("radgraph-xl").encoder == hub.cache / "models--some--encoder" / "snapshots" / "0123"
    assert "radgraph-xl@absent" not in radgraph_weights.label("radgraph-xl")
    assert hub.calls == []


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_a_process_that_has_become_offline_asks_nobody(hub: Hub, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's library reads the variable once, when it is imported, which is long ago."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv(name, "1")
    assert "is not on this machine" in (radgraph_weights.missing("radgraph-xl") or "")
    with pytest.raises(ModelMissing, match="is not on this machine"):
        suite.prepare("f1_radgraph")
    assert radgraph_weights.label("radgraph-xl") == "radgraph-xl@absent"
    hub.hf_hub_download("StanfordAIMI/RRG_scorers", "radgraph-xl.tar.gz")
    hub.calls.clear()
    with pytest.raises(ModelMissing, match="its encoder some/encoder are not on this machine"):
        suite.prepare("f1_radgraph")
    assert hub.calls == []


def test_the_hub_is_asked_where_it_may_be(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    held = ["radgraph-xl.tar.gz", "README.md"]
    asked: list[str] = []

    def model_info(self: Any, name: str, timeout: float) -> SimpleNamespace:
        asked.append(name)
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=file) for file in held])

    def download(*_: Any, **__: Any) -> str:
        raise OSError("connection reset\nmore")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
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
