"""BLEURT: how well a prediction says what a reference says, by a BERT or RemBERT trained on human ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.metrics import bleurt_checkpoint, bleurt_tokens, settings
from lm_eval_healthcare.metrics.base import Measured, Metric, References, Scores, as_lists, format_signature
from lm_eval_healthcare.metrics.bert_score_layers import default_language
from lm_eval_healthcare.metrics.bleurt_checkpoint import Checkpoint, CheckpointError
from lm_eval_healthcare.metrics.bleurt_tokens import Ids, Subwords
from lm_eval_healthcare.metrics.encoding import batches, checkpoints, device
from lm_eval_healthcare.metrics.encoding.batches import DoesNotFit
from lm_eval_healthcare.metrics.encoding.precision import full_precision
from lm_eval_healthcare.metrics.encoding.warm import Warm
from lm_eval_healthcare.metrics.pairs import is_blank
from lm_eval_healthcare.metrics.settings import Compute

ENGLISH_MODEL = "lucadiliello/bleurt-base-512"
MULTILINGUAL_MODEL = "lucadiliello/BLEURT-20"

Report = Callable[[str, int, float, bool], None]


class Bleurt(Metric):
    """BLEURT, the output of a regression model, higher is better.

    The reference r and the prediction p go through an encoder as one sequence, `[CLS] r [SEP] p [SEP]` with token
    types 0 and 1, and

        score = w · tanh(W h + b) + c

    for its output h at `[CLS]`. The order matters. There are no bounds: bleurt-base-512, the checkpoint of the
    published tasks and the default for English, is not calibrated, and negative scores are normal; BLEURT-20, the
    default for other languages, gives roughly 0 to 1. Scores of different checkpoints are not comparable.

    A blank prediction gets min(0, score) of a prediction without any subword: 0, as with every similarity here, would
    beat most answers with bleurt-base-512, and no blank prediction should gain from a checkpoint that rates one above
    0. A visible text without subwords, such as a lone U+FFFD, has the network's score as it is.

    Texts are cut into subwords and truncated as Google's own code does it (`bleurt_tokens`). With
    `metrics_long=windows` nothing is truncated: both texts are cut into the same number of consecutive parts, as few as
    fit, and the score is the mean over the pairs of parts. With several references the best one counts.

    Source: Sellam, Das and Parikh 2020 (https://aclanthology.org/2020.acl-main.704), for BLEURT-20 Pu et al. 2021
    (https://aclanthology.org/2021.emnlp-main.58). The network's numbers are those of bleurt-pytorch 0.0.1 with the same
    weights to 1e-6, on transformers 4.57 and 5; that package never truncates.
    """

    name = "bleurt"
    description = "Agreement with the reference as a model trained on human ratings sees it."
    minimum = float("-inf")
    maximum = float("inf")
    options = ("bleurt_model", *settings.COMPUTE_OPTIONS, "languages", "report")
    requires = ("torch", "transformers", "safetensors", "sentencepiece")
    extra = "semantic"
    heavy = True
    limited = True

    def missing(self, **options: Any) -> str | None:
        """Return what is lacking: a package, the model, or the device asked for."""
        model, compute = _settings(options)
        problem = device.absent(compute) or bleurt_checkpoint.missing(model)
        if problem is not None and "bleurt_model" not in problem:
            problem = f"{self.name}: {problem} (The option is bleurt_model.)"
        return super().missing() or problem

    def prepare(self, **options: Any) -> None:
        """Find the checkpoint, downloading it if need be, and look whether it can be scored with.

        Raises:
            ModelMissing: If it cannot be had.
            CheckpointError: If it is damaged, or not a BLEURT checkpoint.
            VocabularyError: If it lacks a usable vocabulary.
        """
        model, _ = _settings(options)
        Checkpoint.of(model).check()

    def blank(self, **options: Any) -> float | None:
        """Return None: the network is asked about an empty text."""
        return None

    def measure(
        self, names: Sequence[str], predictions: Sequence[str], references: References, **options: Any
    ) -> Measured:
        """Return the score of each document, and which of them did not fit into the model."""
        model, compute = _settings(options)
        truncated = np.zeros(len(predictions), dtype=bool)
        scores = np.full(len(predictions), np.nan)
        if len(predictions):
            scorer = _scorer(model, compute)
            documents = _Documents.of(predictions, as_lists(references), scorer, compute.long, options.get("report"))
            documents.score(scorer)
            scores, truncated = documents.scores, documents.truncated
        return Measured({self.name: scores}, {self.name: truncated})

    def score(self, predictions: Sequence[str], references: References, **options: Any) -> Scores:
        """Return the score of each document."""
        return self.measure([self.name], predictions, references, **options).scores[self.name]

    def signature(self, **options: Any) -> str:
        """Return the signature; the model's fingerprint covers its weights, configuration and vocabulary."""
        model, compute = _settings(options)
        return format_signature(
            self.name,
            impl="lm_eval_healthcare-1",
            ref="bleurt-pytorch-0.0.1",
            model=checkpoints.label(model),
            **compute.signature_fields(),
            refs="best",
            scale="unbounded",
            blank="network-or-0",
        )


def _settings(options: Mapping[str, Any]) -> tuple[str, Compute]:
    """Return the model and how it is computed.

    Raises:
        ValueError: If an option has a value that cannot be used.
    """
    languages = options.get("languages") or ("en",)
    languages = [languages] if isinstance(languages, str) else list(languages)
    default = ENGLISH_MODEL if default_language(languages) == "en" else MULTILINGUAL_MODEL
    return settings.text(options, "bleurt_model") or default, Compute.from_options(options)


class _Scorer:
    """A loaded checkpoint, on the device that the settings and the free memory of GPUs speak for."""

    def __init__(self, checkpoint: Checkpoint, compute: Compute) -> None:
        """Load it."""
        import torch

        self.checkpoint, self.compute = checkpoint, compute
        self.subwords = checkpoint.subwords()
        self.device = "cpu"
        self._network = bleurt_checkpoint.load(checkpoint).to(getattr(torch, compute.dtype))

    def settle(self) -> None:
        """Go to a GPU that has room by now, unless it is on one.

        Raises:
            DeviceUnavailable: See `device.place`.
        """
        if self.device != "cpu":
            return
        batch = device.batch_tokens(self.compute, "cuda") * _numbers_per_token(self._network.config)
        numbers = batch + sum(parameter.numel() for parameter in self._network.parameters())
        device.place(self.compute, numbers * self._network.dtype.itemsize, self._move)

    def leave_gpu(self, problem: DoesNotFit) -> None:
        """Go to the CPU, if the device was this project's to choose; else raise the problem."""
        if self.device == "cpu" or self.compute.device != "auto":
            raise problem
        device.tell_once(f"{problem}: going on with the CPU, which takes longer", subject="BLEURT leaves a GPU")
        self._move("cpu")
        batches.free_memory()

    def _move(self, where: str) -> None:
        self._network.to(where)
        self.device = where

    def __call__(self, pairs: Sequence[tuple[Ids, Ids]]) -> Scores:
        """Return the network's output for pairs of a reference's and a candidate's subwords, shape `(n,)`."""
        import torch

        rows = [_sequence(reference, candidate, self.subwords) for reference, candidate in pairs]
        shape = len(rows), max(len(row) for row in rows)
        ids, types, mask = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for number, (row, (reference, _)) in enumerate(zip(rows, pairs, strict=True)):
            ids[number, : len(row)] = row
            types[number, len(reference) + 2 : len(row)] = 1
            mask[number, : len(row)] = 1
        inputs = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}
        with torch.inference_mode(), full_precision(self.device):
            tensors = {name: torch.from_numpy(array).to(self.device) for name, array in inputs.items()}
            logits = self._network(**tensors).logits
            found = logits[:, 0].double().cpu().numpy()
        if not np.isfinite(found).all():
            raise CheckpointError(
                f"bleurt_model={self.checkpoint.folder} gives numbers that are not finite: its weights are "
                "damaged. Fetch it again"
            )
        return found


_WARM: Warm[_Scorer] = Warm(capacity=1)


def _scorer(model: str, compute: Compute) -> _Scorer:
    """Return a model on the device for it, loaded unless it was the last one used."""
    checkpoint = Checkpoint.of(model)
    folder = checkpoint.folder.resolve()
    key = (folder, checkpoints.fingerprint(folder), checkpoint.max_length, compute.dtype, compute.device)
    scorer = _WARM.get(key, lambda: _Scorer(checkpoint, compute))
    scorer.compute = compute
    try:
        scorer.settle()
    except BaseException:
        _WARM.forget(key)  # who knows where its weights are
        raise
    return scorer


def _numbers_per_token(config: Any) -> int:
    """Return about how many numbers one layer holds for a token: states, the wide inner ones, a row of attention."""
    attention = 3 * config.num_attention_heads * config.max_position_embeddings
    return 8 * config.hidden_size + 2 * config.intermediate_size + attention


def _sequence(reference: Ids, candidate: Ids, subwords: Subwords) -> Ids:
    return np.concatenate(
        ([subwords.cls], reference, [subwords.sep], candidate, [subwords.sep]), dtype=np.int32, casting="unsafe"
    )


class _Documents:
    """The distinct pairs of texts of a batch of documents, the parts they are compared by, and what is known so far."""

    def __init__(self, n: int, report: Report | None) -> None:
        self.scores = np.full(n, np.nan)
        self.truncated = np.zeros(n, dtype=bool)
        self._report = report
        self._parts: list[tuple[Ids, Ids]] = []
        self._pair_of_part: list[int] = []
        self._first_part: list[int] = [0]
        self._rows: list[list[int]] = []
        self._is_blank: list[bool] = []
        self._best = np.full(n, -np.inf)
        self._pairs_left = np.zeros(n, dtype=np.int64)

    @classmethod
    def of(
        cls,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        scorer: _Scorer,
        long: str,
        report: Report | None,
    ) -> _Documents:
        """Find the distinct pairs and cut them to what the model takes."""
        documents = cls(len(predictions), report)
        rows_of: dict[tuple[str, str], list[int]] = {}
        for row, (prediction, texts) in enumerate(zip(predictions, references, strict=True)):
            prediction = "" if is_blank(prediction) else prediction
            for text in dict.fromkeys(texts):
                rows_of.setdefault((text, prediction), []).append(row)
        ids: dict[str, Ids] = {}
        for pair, rows in rows_of.items():
            for text in pair:
                if text not in ids:
                    ids[text] = scorer.subwords.ids(text)
            reference, candidate = (ids[text] for text in pair)
            documents._is_blank.append(pair[1] == "")
            documents._add(rows, reference, candidate, scorer.checkpoint.room, long)
        return documents

    def _add(self, rows: list[int], reference: Ids, candidate: Ids, room: int, long: str) -> None:
        if long == "windows":
            cuts = bleurt_tokens.windows(len(reference), len(candidate), room)
        else:
            kept = bleurt_tokens.kept(len(reference), len(candidate), room)
            cuts = [(slice(kept[0]), slice(kept[1]))]
            self.truncated[rows] |= kept != (len(reference), len(candidate))
        self._pair_of_part += [len(self._rows)] * len(cuts)
        self._parts += [(reference[first], candidate[second]) for first, second in cuts]
        self._first_part.append(len(self._parts))
        self._rows.append(rows)
        self._pairs_left[rows] += 1

    def score(self, scorer: _Scorer) -> None:
        """Compute every score, and report each as soon as it is complete."""
        outputs = np.full(len(self._parts), np.nan)
        parts_left = np.diff(self._first_part)
        lengths = [len(reference) + len(candidate) + 3 for reference, candidate in self._parts]

        def step(batch: list[int]) -> None:
            outputs[batch] = scorer([self._parts[part] for part in batch])
            for part in batch:
                pair = self._pair_of_part[part]
                parts_left[pair] -= 1
                if parts_left[pair] == 0:
                    self._settle(pair, outputs)

        with batches.Progress(sum(lengths), Bleurt.name, scorer.device) as progress:
            left, budget = list(range(len(lengths))), device.batch_tokens(scorer.compute, scorer.device)
            try:
                batches.run(left, lengths, budget, step, Bleurt.name, progress)
            except DoesNotFit as problem:
                scorer.leave_gpu(problem)
                left = [part for part in left if np.isnan(outputs[part])]
                budget = device.batch_tokens(scorer.compute, scorer.device)
                batches.run(left, lengths, budget, step, Bleurt.name, progress)

    def _settle(self, pair: int, outputs: NDArray[np.float64]) -> None:
        """Give a pair's score to its documents."""
        value = outputs[self._first_part[pair] : self._first_part[pair + 1]].mean()
        value = min(0.0, value) if self._is_blank[pair] else value
        for row in self._rows[pair]:
            self._best[row] = max(self._best[row], value)
            self._pairs_left[row] -= 1
            if self._pairs_left[row] == 0:
                self.scores[row] = self._best[row]
                if self._report is not None:
                    self._report(Bleurt.name, row, float(self.scores[row]), bool(self.truncated[row]))
