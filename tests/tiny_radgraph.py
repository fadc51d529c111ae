"""A RadGraph with random weights, in the published layout: a folder that the package radgraph loads on its own.

The architecture, the files and the names of the weights are those of the published models; the encoder is `tiny_bert`,
which takes 64 tokens, so that a text of more goes through in pieces. Weights are drawn by name, so every version of the
libraries gets the same.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tiny_encoders import tiny_bert

POSITIONS = 64
NER_LABELS = ("Anatomy::definitely present", "Observation::definitely present", "Observation::definitely absent",
              "Observation::uncertain")  # fmt: skip
RELATION_LABELS = ("located_at", "modify", "suggestive_of")


class Known:
    """What the published package says with these weights: `tests/reference/f1_radgraph.json`.

    Attributes:
        reports: The texts, by name.
        entities: The entities of each.
        rewards: By level and the names of a prediction and a reference.
    """

    def __init__(self) -> None:
        """Read the table, after a look at whether it was made of the texts that are there now."""
        folder = Path(__file__).resolve().parent / "reference"
        texts = (folder / "reports.json").read_bytes()
        table = json.loads((folder / "f1_radgraph.json").read_text(encoding="utf-8"))
        assert table["texts_sha256"] == hashlib.sha256(texts).hexdigest(), (
            f"f1_radgraph.json was made of other texts; write it anew: {table['command']}"
        )
        self.reports: dict[str, str] = {row["id"]: row["text"] for row in json.loads(texts)["documents"]}
        found = {setting["name"]: setting["documents"] for setting in table["settings"]}
        self.entities: dict[str, Any] = found.pop("entities")
        assert list(self.entities) == list(self.reports)
        self.rewards: dict[str, dict[tuple[str, str], float]] = {
            level: {
                (prediction, reference): value for prediction, row in rows.items() for reference, value in row.items()
            }
            for level, rows in found.items()
        }


def packed(folder: Path, archive: Path) -> Path:
    """Pack a model as the published archives are packed, but not its encoder, which they lack."""
    with tarfile.open(archive, "w:gz") as tar:
        for path in (folder, *sorted(folder.rglob("*"))):
            if "encoder" not in path.parts:
                tar.add(path, f"./{path.relative_to(folder).as_posix()}", recursive=False)
    return archive


def bare_machine(folder: Path, patch: Any) -> Path:
    """Let this be a machine without internet whose caches are empty, by a `pytest.MonkeyPatch`."""
    from huggingface_hub import constants

    patch.setenv("HF_HUB_OFFLINE", "1")
    patch.setattr(constants, "HF_HUB_CACHE", str(folder / "hub"))
    patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    patch.setattr(Path, "home", lambda: folder / "home")
    return folder


def write_files(folder: Path, kind: str = "radgraph-xl") -> Path:
    """Write everything but the weights."""
    encoder = tiny_bert(folder / "encoder", positions=POSITIONS)
    bert = {"type": "pretrained_transformer_mismatched", "max_length": POSITIONS, "model_name": str(encoder)}
    model = {
        "type": "dygie",
        "embedder": {"token_embedders": {"bert": bert}},
        "initializer": {},
        "module_initializer": {},
        "feature_size": 5,
        "feedforward_params": {"num_layers": 2, "hidden_dims": 16, "dropout": 0.4},
        "loss_weights": {"ner": 0.2, "relation": 1.0, "coref": 0.0, "events": 0.0},
        "max_span_width": 4,
        "target_task": "relation",
        "modules": {
            "ner": {},
            "relation": {"spans_per_word": 0.5},
            "coref": {"coref_prop": 0, "max_antecedents": 100, "spans_per_word": 0.3},
            "events": {"trigger_spans_per_word": 0.3, "argument_spans_per_word": 0.8},
        },
    }
    reader = {"type": "dygie", "max_span_width": 4, "token_indexers": {"bert": bert}}
    (folder / "config.json").write_text(json.dumps({"dataset_reader": reader, "model": model}), encoding="utf-8")
    vocabulary = folder / "vocabulary"
    vocabulary.mkdir()
    (vocabulary / "non_padded_namespaces.txt").write_text("*tags\n*labels\n", encoding="utf-8")
    (vocabulary / f"{kind}__ner_labels.txt").write_text("\n".join(["", *NER_LABELS, ""]), encoding="utf-8")
    (vocabulary / f"{kind}__relation_labels.txt").write_text("\n".join([*RELATION_LABELS, ""]), encoding="utf-8")
    return folder


def tiny_radgraph(folder: Path, kind: str = "radgraph-xl") -> Path:
    """Write a model into a new folder, with weights for every parameter that the package's network has."""
    import torch
    from radgraph.dygie.models.dygie import DyGIE

    write_files(folder, kind)
    torch.save({}, folder / "weights.th")
    networks: list[Any] = []
    with mock.patch.object(DyGIE, "load_state_dict", lambda self, *_, **__: networks.append(self)):
        load(folder, kind)
    (network,) = networks
    drawn = {name: drawn_weight(name, tuple(values.shape)) for name, values in network.state_dict().items()}
    torch.save({name: torch.from_numpy(values) for name, values in drawn.items()}, folder / "weights.th")
    return folder


def load(folder: Path, kind: str) -> Any:
    """Load a folder of the name `kind` with the package, which must run as it is."""
    from radgraph import RadGraph

    assert folder.name == kind, "the package wants a folder of the model's name"
    return RadGraph(model_type=kind, model_cache_dir=str(folder.parent), cuda=-1)


def drawn_weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return random weights under which a report has a few entities and relations rather than none or all."""
    values = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape)
    if "LayerNorm.weight" in name:
        values = 1 + 0.1 * values
    elif name.endswith("bias"):
        values = 0.1 * values
    elif "embedding" not in name.split(".")[-2]:
        values = 1.6 * values / np.sqrt(shape[-1])
    if "_ner_scorers" in name and name.endswith("1._module.bias"):
        values = values - 0.6
    if "_relation_scorers" in name and name.endswith("bias"):
        values = values - 0.8
    return values.astype(np.float32)
