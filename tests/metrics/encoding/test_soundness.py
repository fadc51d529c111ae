from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lm_eval_healthcare.metrics.encoding.soundness import cut_short, unknown_type, unsound
from support import child_environment
from tiny_encoders import TINY, tiny_bert

PART = "model-00001-of-00001.safetensors"


def broken(folder: Path, how: str) -> None:
    weights, configuration = folder / "model.safetensors", folder / "config.json"
    if how == "cut":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif how == "header":
        weights.write_bytes(weights.read_bytes()[:100])
    elif how == "part":
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": PART}}))
        (folder / PART).write_bytes(weights.read_bytes()[:-1])
        weights.unlink()
    elif how in ("zip", "page"):
        weights.unlink()
        with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as archive:
            archive.writestr("archive/data.pkl", bytes(1000))
        content = (folder / "pytorch_model.bin").read_bytes()[:-30] if how == "zip" else b"<!doctype html>" * 99
        (folder / "pytorch_model.bin").write_bytes(content)
    elif how == "configuration":
        configuration.write_text('{"model_type": "bert",')
    elif how == "list":
        configuration.write_text("[]")
    else:
        configuration.write_text(json.dumps({"model_type": how} if how != "typeless" else {}))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("cut", "model.safetensors was cut short ("),
        ("header", "model.safetensors is not a whole file of safetensors (100 bytes)"),
        ("part", f"{PART} was cut short ("),
        ("zip", "pytorch_model.bin was cut short ("),
        ("page", "pytorch_model.bin holds no weights of PyTorch (it begins with b'<!do')"),
        ("configuration", "config.json cannot be read (Expecting property name"),
        ("list", "config.json is not a JSON object"),
        ("typeless", 'config.json does not say which type of model it is; add "model_type"'),
        ("no-such-type", "config.json says model_type 'no-such-type', which transformers "),
    ],
)
def test_a_folder_that_cannot_be_loaded_says_why(tmp_path: Path, how: str, told: str) -> None:
    if how in ("typeless", "no-such-type"):
        pytest.importorskip("transformers")
    folder = tiny_bert(tmp_path / "tiny")
    broken(folder, how)
    assert (unsound(folder) or "").startswith(told)


@pytest.mark.parametrize("kind", TINY)
def test_good_folders_are_sound(kind: str, tiny: Callable[[str], Path]) -> None:
    assert unsound(tiny(kind)) is None


@pytest.mark.parametrize("old", [False, True])
def test_weights_that_pytorch_has_written_are_good(tmp_path: Path, old: bool) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"w": torch.zeros(9)}, path, _use_new_zipfile_serialization=not old)
    assert cut_short(path) is None


def test_weights_are_looked_at_without_being_read(tmp_path: Path) -> None:
    # A header that promises 8 TiB in a file that has them, as far as the file system knows.
    header = b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8796093022208]}}'
    path = tmp_path / "model.safetensors"
    try:
        with path.open("wb") as stream:
            stream.write(len(header).to_bytes(8, "little") + header)
            stream.truncate(8 + len(header) + 2**43)
    except OSError:
        pytest.skip("no sparse files of that size here")
    assert cut_short(path) is None
    with path.open("r+b") as stream:
        stream.truncate(2**42)
    # 2^42, and 2^43 + 8 + the 73 bytes of the header
    assert "was cut short (4,398,046,511,104 of 8,796,093,022,289 bytes)" in str(cut_short(path))


def test_types_are_known_without_importing_anything() -> None:
    pytest.importorskip("transformers")
    code = (
        "import sys\nfrom lm_eval_healthcare.metrics.encoding.soundness import unknown_type\n"
        "print([unknown_type({'model_type': kind}) for kind in sys.argv[1:]])\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "bert", "rembert", "deberta-v2", "xlm-roberta", "t5"],
        capture_output=True, text=True, env=child_environment(), check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [str([None] * 5), "[]"]


def test_types_that_a_program_has_registered_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    assert unknown_type({"model_type": "a-type-of-our-own"}) is not None
    mapping = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    monkeypatch.setitem(mapping._extra_content, "a-type-of-our-own", transformers.BertConfig)
    assert unknown_type({"model_type": "a-type-of-our-own"}) is None
