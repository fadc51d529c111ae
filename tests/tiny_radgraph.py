"""A RadGraph with random weights, in the published layout: a folder that the package radgraph loads on its own.

The architecture, the files and the names of the weights are those of the published models; the encoder is `tiny_bert`,
which takes 64 tokens, so that a text of more goes through in pieces. Weights are drawn by name, so every version of the
libraries gets the same.

`python tests/tiny_radgraph.py TABLE` writes what the unmodified package says about a few reports. It needs an
environment of its own, since the package as published runs on transformers 4 alone:

    pip install torch==2.13.0 transformers==4.57.6 radgraph==0.1.18 requests
"""

from __future__ import annotations

import json
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
REPORTS = (
    "no pain in chest.",
    "there is no pain in chest",
    "fever",
    "blood pressure is high. take one tablet daily with water",
    "blood pressure is high (1/2), take one tablet daily",
    "the blood pressure is high. take one tablet with water",
    "the patient has mild fever and a dry cough, no pain in chest. blood pressure is high; take one tablet daily with "
    "water. hypertension, hyperkalaemia: opioid withdrawal. the patient has taken one tablet daily.",
)


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


def one_a_line(tables: dict[str, list[Any]]) -> str:
    """Return lists as JSON with one entry a line."""
    parts = [f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in tables.items()]
    return "{" + ", ".join(parts) + "}\n"


def main(table: Path) -> None:
    import tempfile

    from radgraph.rewards import compute_reward

    with tempfile.TemporaryDirectory() as parent:
        model = load(tiny_radgraph(Path(parent) / "radgraph-xl"), "radgraph-xl")
        found = model(list(REPORTS))
    reports = [{"text": text, "entities": found[str(row)]["entities"]} for row, text in enumerate(REPORTS)]
    rewards = [
        {
            "prediction": i,
            "reference": j,
            **{level: compute_reward(found[str(i)], found[str(j)], level) for level in LEVELS},
        }
        for i in range(len(REPORTS))
        for j in range(len(REPORTS))
    ]
    table.write_text(one_a_line({"reports": reports, "rewards": rewards}), encoding="utf-8")


LEVELS = ("simple", "partial", "complete")

if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
