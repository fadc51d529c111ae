"""A judge that transformers runs in this process: slower than vLLM, and possible on any machine."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

from lm_eval_healthcare.judge.backends.base import Ask, Backend, Reply
from lm_eval_healthcare.judge.backends.local_model import (
    ChatTokens,
    check_folder,
    free_memory,
    refuse_unknown,
    revision_of,
    signature_name,
    too_long,
)
from lm_eval_healthcare.judge.backends.picker import Picker
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.prompt import Prompt
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.settings import Sampling
from lm_eval_healthcare.metrics.base import package_version
from lm_eval_healthcare.metrics.encoding import checkpoints
from lm_eval_healthcare.metrics.encoding.batches import is_out_of_memory
from lm_eval_healthcare.metrics.encoding.machine import first_line

logger = logging.getLogger(__name__)

AUTO = "auto"
ARGUMENTS = (
    "attn_implementation", "batch_size", "device_map", "dtype", "max_memory", "max_model_len", "quantization_config",
    "revision", "tokenizer", "trust_remote_code",
)  # fmt: skip
_MOST = {"cpu": 8, "cuda": 64}
"""Most prompts at once with batch_size=auto, by the kind of device."""
_SHARE = 0.5
"""Share of the free memory that a batch may take with batch_size=auto, as far as it is foreseen."""
_Asked = tuple[Ask, list[int]]


class HFBackend(Backend):
    """Runs a judge with transformers in this process, batch after batch.

    What is written for a request depends on its prompt and seed, not on the batch it is in.
    """

    name: ClassVar[str] = "hf"

    def __init__(
        self,
        model: str,
        *,
        device: str = AUTO,
        dtype: str = AUTO,
        batch_size: int | str = AUTO,
        args: Mapping[str, Any] | None = None,
    ) -> None:
        """Note what to load; nothing is loaded yet.

        Args:
            model: A folder, or the hub's id with or without `@revision`.
            device: `cpu`, `cuda`, `cuda:1` and so on; `auto` for a GPU if there is one.
            dtype: `float32`, `bfloat16`, `float16`, or `auto` for that of the weights.
            batch_size: Prompts at once; `auto` for as many as fit into half of the free memory, at most 64 on a GPU and
                8 elsewhere. When memory runs out, the batch is halved.
            args: Arguments of `from_pretrained`, of those in `ARGUMENTS`; `max_model_len`: the most tokens of prompt
                and text together, if fewer than the model can take; `dtype` and `batch_size` in place of those above.

        Raises:
            JudgeError: If one of them makes no sense.
        """
        self.args = dict(args or {})
        refuse_unknown(self.args, ARGUMENTS, "arguments of backend hf")
        dtype, batch_size = str(self.args.pop("dtype", dtype)), self.args.pop("batch_size", batch_size)
        if batch_size != AUTO and not (str(batch_size).isdecimal() and int(batch_size) > 0):
            raise JudgeError(f"the judge's batch_size is {batch_size}; expected auto or a whole number from 1")
        self.device, self.dtype = device, dtype
        self.batch_size = batch_size if batch_size == AUTO else int(batch_size)
        self._where, inside = checkpoints.parse(model)
        self._given, self._revision = model, inside or revision_of(self.args)
        self._network: Any = None
        self._limit: int | None = None

    @cached_property
    def model(self) -> str:  # type: ignore[override]
        """The judge's name as signatures have it."""
        return signature_name(self._given, self._revision, self.args)

    @property
    def facts(self) -> dict[str, object]:
        """What results say: versions, device, precision and the arguments."""
        found: dict[str, object] = {
            "backend": self.name, "transformers": package_version("transformers"), "torch": package_version("torch"),
            "context": self.context, "batch_size": self.batch_size,
        }  # fmt: skip
        if self._network is not None:
            found["device"] = str(self._network.device)
            found["dtype"] = str(self._network.dtype).removeprefix("torch.")
        return {**found, **self.args}

    def check(self) -> None:
        """See whether the libraries, the device and the model are there, and the weights whole; nothing is loaded.

        Raises:
            JudgeError: If not.
        """
        try:
            import torch
            import transformers  # noqa: F401
        except ImportError:
            raise JudgeError(
                "backend hf: PyTorch and transformers are not installed. pip install 'lm-eval-healthcare[hf]', or use "
                "backend openai with a server"
            ) from None
        if self.dtype != AUTO and not isinstance(getattr(torch, self.dtype, None), torch.dtype):
            raise JudgeError(f"the judge's dtype is {self.dtype}; expected auto, float32, bfloat16 or float16")
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise JudgeError(f"the judge's device is {self.device}, but PyTorch sees no GPU here; use cpu or auto")
        check_folder(self._given, self._revision)

    def start(self) -> None:
        """Load the model.

        Raises:
            JudgeError: If it cannot be loaded, or its folder lacks some of its weights.
        """
        if self._network is not None:
            return
        self.check()
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig

        kind = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == AUTO else self.device
        given = {k: v for k, v in self.args.items() if k not in ("max_model_len", "tokenizer", "revision")}
        tokens, network, problem = self._tokens, None, ""
        try:
            network, told = AutoModelForCausalLM.from_pretrained(
                self._where, revision=self._revision, dtype=self.dtype, output_loading_info=True, **given
            )
            if told["missing_keys"]:
                problem = f"its weights lack {', '.join(sorted(told['missing_keys'])[:3])}"
            elif "device_map" not in given:
                network = network.to(kind)
        except Exception as error:  # of files, configuration, memory, in many forms
            logger.debug("transformers could not load %s", self._given, exc_info=True)
            problem = first_line(error)
        if problem or network is None:
            del network
            free_memory()
            raise JudgeError(
                f"judge {self._given}: transformers cannot load it on {kind} ({problem}). Give a folder with complete "
                "weights of a causal language model; if memory is short, a smaller model, dtype=bfloat16 or device=cpu"
            )
        self._network = network.eval()
        self._network.generation_config = GenerationConfig()  # what the folder says of sampling must not come on top
        self.context = self._context(tokens.tokenizer)

    def count(self, prompt: Prompt) -> int:
        """Return the number of tokens of a prompt; the tokenizer is loaded if it is not yet."""
        return len(self._tokens.ids(prompt))

    def replies(self, asks: Iterable[Ask], sampling: Sampling) -> Iterator[Reply]:
        """Yield replies batch by batch.

        A request for which memory runs out alone has no reply.

        Raises:
            JudgeError: If the model was not started, or gives numbers that are not finite.
        """
        if self._network is None:
            raise JudgeError("the judge is not loaded: call start first")
        return self._in_batches(iter(asks), sampling)

    def close(self) -> None:
        """Free the model."""
        loaded, self._network, self.context, self._limit = self._network is not None, None, None, None
        if loaded:
            free_memory()

    @cached_property
    def _tokens(self) -> ChatTokens:
        return ChatTokens.load(
            self._where,
            revision=self._revision,
            tokenizer=self.args.get("tokenizer"),
            trust_remote_code=bool(self.args.get("trust_remote_code", False)),
        )

    def _context(self, tokenizer: Any) -> int | None:
        """Return the most tokens that model, tokenizer and user allow; None if none of them says so."""
        config = _text_config(self._network.config)
        lengths = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")]
        lengths += [getattr(tokenizer, "model_max_length", None), self.args.get("max_model_len")]
        known = [int(length) for length in lengths if isinstance(length, int) and 0 < length < 10**9]
        return min(known, default=None)

    def _in_batches(self, asks: Iterator[Ask], sampling: Sampling) -> Iterator[Reply]:
        waiting: deque[_Asked] = deque()
        while True:
            for ask in islice(asks, max(0, self._most - len(waiting))):
                ids = self._tokens.ids(ask.prompt)
                if self.context is not None and len(ids) >= self.context:
                    yield too_long(ask, len(ids), self.context)
                else:
                    waiting.append((ask, ids))
            if not waiting:
                return
            batch = [waiting.popleft() for _ in range(self._fitting([len(ids) for _, ids in waiting], sampling))]
            found = self._attempt(batch, sampling)
            if found is not None:
                yield from found
                continue
            free_memory()
            if len(batch) == 1:
                ask, ids = batch[0]
                detail = f"out of memory for a prompt of {len(ids)} tokens alone"
                yield Reply(ask.number, None, Reason.NO_REPLY, detail, prompt_tokens=len(ids))
                continue
            self._limit = len(batch) // 2
            logger.warning("judge: out of memory, going on with %d prompts at once", self._limit)
            waiting.extendleft(reversed(batch))

    @property
    def _most(self) -> int:
        """Most prompts that go through the model at once."""
        most = _MOST.get(self._network.device.type, 8) if self.batch_size == AUTO else int(self.batch_size)
        return most if self._limit is None else min(most, self._limit)

    def _fitting(self, lengths: Sequence[int], sampling: Sampling) -> int:
        """Return how many of the next prompts, of so many tokens, go through the model at once."""
        lengths = lengths[: self._most]
        if self.batch_size != AUTO:
            return len(lengths)
        room, longest = _SHARE * _free_bytes(self._network.device), 0
        for place, length in enumerate(lengths):
            longest = max(longest, length)
            if place and (place + 1) * _bytes_a_row(self._network, longest, sampling.max_tokens) > room:
                return place
        return len(lengths)

    def _attempt(self, batch: Sequence[_Asked], sampling: Sampling) -> list[Reply] | None:
        """Return the replies to a batch, or None if memory ran out; the failed call's tensors are gone by then."""
        try:
            return self._generated(batch, sampling)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise JudgeError(
                    f"judge {self._given} failed on {self._network.device} ({first_line(error)}); try device=cpu or "
                    "another dtype"
                ) from error
        return None

    def _generated(self, batch: Sequence[_Asked], sampling: Sampling) -> list[Reply]:
        import torch
        from transformers import GenerationConfig, LogitsProcessorList

        longest = max(len(ids) for _, ids in batch)
        room = [sampling.max_tokens if self.context is None else self.context - len(ids) for _, ids in batch]
        limits = [min(sampling.max_tokens, left) for left in room]
        ends, pad = sorted(self._tokens.end_tokens), min(self._tokens.end_tokens, default=0)
        ids = torch.tensor([[pad] * (longest - len(row)) + row for _, row in batch])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for _, row in batch])
        picker = Picker([row for _, row in batch], [ask.seed for ask, _ in batch], limits, sampling, pad)
        with torch.inference_mode():
            self._network.generate(
                input_ids=ids.to(self._network.device),
                attention_mask=mask.to(self._network.device),
                logits_processor=LogitsProcessorList([picker]),
                generation_config=GenerationConfig(
                    max_new_tokens=max(limits), do_sample=False, eos_token_id=ends or None, pad_token_id=pad
                ),
            )
        picks, tops = picker.results()
        return [self._reply(asked, picks[place][: limits[place]], tops[place]) for place, asked in enumerate(batch)]

    def _reply(self, asked: _Asked, picks: list[int], rows: Sequence[Sequence[tuple[int, float]]]) -> Reply:
        ask, ids = asked
        ended = next((place for place, token in enumerate(picks) if token in self._tokens.end_tokens), None)
        generated = picks if ended is None else picks[: ended + 1]
        finish = "length" if ended is None else "stop"
        return self._tokens.reply(ask, len(ids), generated, rows[: len(generated)], finish)


def _text_config(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _bytes_a_row(network: Any, prompt: int, text: int) -> int:
    """Return about how many bytes one row of a batch takes: keys and values, and on a CPU attention between all tokens.

    Where the prompts of a batch have different lengths, PyTorch keeps the table of attention of one layer on a CPU, and
    a second one while it is normalised; its kernels for GPUs keep none.
    """
    config = _text_config(network.config)
    heads = int(getattr(config, "num_attention_heads", None) or 1)
    width = int(getattr(config, "hidden_size", None) or 4096)
    kept = int(getattr(config, "num_key_value_heads", None) or heads)
    head = int(getattr(config, "head_dim", None) or width // heads)
    layers = int(getattr(config, "num_hidden_layers", None) or 32)
    attention = 0 if network.device.type == "cuda" else 2 * heads * prompt * prompt * 4
    return 2 * layers * kept * head * network.dtype.itemsize * (prompt + text) + attention


def _free_bytes(device: Any) -> int:
    """Return the bytes that are free where the model is; 4 GiB where nobody says."""
    import torch

    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            found = next(int(line.split()[1]) for line in stream if line.startswith("MemAvailable"))
        return found * 1024
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 4 * 2**30
