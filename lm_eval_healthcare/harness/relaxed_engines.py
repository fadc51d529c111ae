"""Which engine of Relaxed Perplexity a model of the harness gets, and what each needs of the harness."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import TemplateLM

from lm_eval_healthcare.harness.asking import TAKE_SEEDS, ask, instance, seeded, uncached
from lm_eval_healthcare.harness.likelihood import computed, token_limit
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.relaxed_codec import Codec, is_a
from lm_eval_healthcare.relaxed_perplexity.engines.base import CLAMPED
from lm_eval_healthcare.relaxed_perplexity.engines.generic import GenericEngine

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine, Question
    from lm_eval_healthcare.relaxed_perplexity.prefixes import Tokens
    from lm_eval_healthcare.relaxed_perplexity.settings import Settings

AUTO, GENERIC, TRANSFORMERS, VLLM = "auto", "generic", "transformers", "vllm"
ENGINES = (AUTO, GENERIC, TRANSFORMERS, VLLM)
_SPARE = 8  # tokens that are asked for beyond a completion's length: text encoded again may have fewer
_GPU_QUESTIONS = 8


def engine_for(lm: Any, codec: Codec, chosen: str, memory: float | None) -> Engine:
    """Return the engine for a model: the fastest that fits, or the one that was chosen.

    Args:
        lm: A model of the harness.
        codec: The model's tokens.
        chosen: One of `ENGINES`.
        memory: GiB that the transformers engine may use beside the model; None: a share of what is free.

    Raises:
        OptionError: If the chosen engine does not fit the model, or no engine does.
    """
    if getattr(lm, "backend", None) == "seq2seq":
        raise OptionError(f"{type(lm).__name__}: an encoder-decoder model has no prefixes of its answer in its prompt")
    if str(getattr(getattr(lm, "accelerator", None), "distributed_type", "")).endswith("FSDP"):
        raise OptionError("Relaxed Perplexity does not run under FSDP; use parallelize=True, or one process")
    fits = VLLM if _is_vllm(lm) else TRANSFORMERS if _is_transformers(lm) else GENERIC
    if chosen not in (AUTO, GENERIC, fits):
        raise OptionError(f"relaxed_engine={chosen}: this model is {type(lm).__name__}; use auto, {fits} or {GENERIC}")
    name = fits if chosen == AUTO else chosen
    if name == VLLM:
        return _vllm_engine(lm)
    if name == TRANSFORMERS:
        return _transformers_engine(lm, memory)
    together = getattr(lm, "world_size", 1) > 1  # the ranks' calls must be the same in number
    return GenericEngine(_generator(lm, codec), _scorer(lm, codec), group=sys.maxsize if together else 8)


# transformers


def _is_transformers(lm: Any) -> bool:
    """Say whether it is the harness's own transformers back end, asked in its own way, one whole model a process."""
    base = next((kind for kind in type(lm).__mro__ if kind.__name__ == "HFLM"), None)
    if base is None or getattr(lm, "backend", None) != "causal":
        return False
    own_call = [getattr(kind, "_model_call", None) for kind in (type(lm), base)]
    return own_call[0] is own_call[1] and hasattr(lm.model, "get_input_embeddings")


def _transformers_engine(lm: Any, memory: float | None) -> Engine:
    from lm_eval_healthcare.relaxed_perplexity.engines.transformers_engine import TransformersEngine

    size = lm.batch_size if isinstance(lm.batch_size, int) else 1
    if str(lm.device).startswith("cuda"):  # if they do not fit, the engine takes fewer
        size = max(size, _GPU_QUESTIONS)
    return TransformersEngine(
        lm.model,
        end_tokens=_end_tokens(lm, getattr(lm.model, "generation_config", None)),
        pad_token=int(lm.tokenizer.pad_token_id or 0),
        group=max(1, size),
        memory=memory,
        autocast=getattr(lm, "mixed_precision_dtype", None),
    )


def _end_tokens(lm: Any, generation_config: Any) -> set[int]:
    """The tokens that end a text: the tokenizer's, and those that the model's folder names."""
    found: set[int] = set()
    for value in (
        getattr(lm, "eot_token_id", None),
        getattr(getattr(lm, "tokenizer", None), "eos_token_id", None),
        getattr(generation_config, "eos_token_id", None),
    ):
        found.update(
            int(token) for token in (value if isinstance(value, list | tuple) else [value]) if token is not None
        )
    return found


# vLLM


def _is_vllm(lm: Any) -> bool:
    return is_a(lm, "VLLM") and getattr(lm, "data_parallel_size", 1) == 1


def refuse_engine(engine: str, model: Any) -> None:
    """Refuse an engine that the model's back end cannot have, before the model is loaded.

    Args:
        engine: The engine that was asked for.
        model: The harness's name of the back end; any other object is left to `engine_for`.

    Raises:
        OptionError: If they do not belong together.
    """
    back_ends = {VLLM: ("vllm",), TRANSFORMERS: ("hf", "hf-auto", "huggingface")}
    if isinstance(model, str) and model not in back_ends.get(engine, (model,)):
        raise OptionError(f"relaxed_engine={engine}: with --model {model} use {AUTO} or {GENERIC}")


def engine_arguments(model: Any, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a run's model arguments with what lets the vLLM engine read prefixes from vLLM's cache.

    vLLM takes logits processors only when it starts; without this one the branches are computed in full.

    Args:
        model: The harness's name of the back end.
        arguments: The model's arguments as the user gave them.
    """
    from lm_eval_healthcare.relaxed_perplexity.engines.vllm_forced import with_forced_tokens

    given = dict(arguments or {})
    return with_forced_tokens(given) if model == "vllm" and int(given.get("data_parallel_size", 1)) == 1 else given


def _vllm_engine(lm: Any) -> Engine:
    from lm_eval_healthcare.relaxed_perplexity.engines.vllm_engine import VLLMEngine

    generation = None
    with contextlib.suppress(Exception):  # a folder without one
        generation = lm.model.llm_engine.model_config.try_get_generation_config()
    config = type("GenerationConfig", (), dict(generation or {}))
    return VLLMEngine(
        lm.model,
        max_model_len=int(lm.model.llm_engine.model_config.max_model_len),
        end_tokens=_end_tokens(lm, config),
        lora_request=lm.lora_request,
    )


# Any other model


def _generator(lm: Any, codec: Codec) -> Callable[[Sequence[Question], Settings], list[list[Tokens]]]:
    takes_seeds = any(is_a(lm, name) for name in TAKE_SEEDS)

    def generate(questions: Sequence[Question], settings: Settings) -> list[list[Tokens]]:
        if settings.end != "stop":
            raise OptionError(
                f"relaxed_end={settings.end}: the generic engine cannot keep a model from ending its text; use "
                "relaxed_end=stop, or a model that the transformers or vLLM engine takes"
            )
        # A model that takes no seed draws from one stream: asked question by question, order does not matter.
        parts = [questions] if takes_seeds else [[question] for question in questions]
        texts: list[str] = []
        for part in parts:
            asked = [
                instance("generate_until", (codec.prompt_text(question.tokens), arguments(question, settings, number)))
                for question in part
                for number in range(settings.samples)
            ]
            with uncached(lm), seeded(part[0].seed):
                texts += ask(lm.generate_until, asked)
        tokens = [tuple(codec.after(text or "")) for text in texts]
        return [tokens[start : start + settings.samples] for start in range(0, len(tokens), settings.samples)]

    def arguments(question: Question, settings: Settings, number: int) -> dict[str, Any]:
        length = settings.length + _SPARE
        if getattr(lm, "max_length", None) and len(question.tokens) + length > token_limit(lm):
            length = settings.length  # a back end would take the rest from the prompt
        return {
            "until": [],
            "max_gen_toks": length,
            "do_sample": True,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            # What a model's folder says of sampling must not come on top.
            **({"top_k": 0, "repetition_penalty": 1.0} if is_a(lm, "HFLM") else {}),
            **({"seed": settings.seed + number} if takes_seeds else {}),
        }

    return generate


def _scorer(lm: Any, codec: Codec) -> Callable[[Sequence[tuple[Tokens, Tokens]]], list[float]]:
    def by_tokens(pairs: Sequence[tuple[Tokens, Tokens]]) -> list[float]:
        order = sorted(range(len(pairs)), key=lambda place: -sum(map(len, pairs[place])))
        windows = [(place, (list(pairs[place][0]), list(pairs[place][1]))) for place in order]
        found = [float("nan")] * len(pairs)
        with uncached(lm), _unclamped(lm):
            for batch, values in computed(lm, windows):
                for (place, _), value in zip(batch, values, strict=False):  # padding is left over
                    found[place] = float(value[0])
        return found

    def by_text(pairs: Sequence[tuple[Tokens, Tokens]]) -> list[float]:
        asked = [instance("loglikelihood", (codec.decode(before), codec.decode(text))) for before, text in pairs]
        with uncached(lm):
            values = ask(lm.loglikelihood, asked) if asked else []
        return [float(value[0]) for value in values]

    return by_tokens if codec.unit == "tokens" and isinstance(lm, TemplateLM) else by_text


@contextlib.contextmanager
def _unclamped(lm: Any) -> Iterator[None]:
    """Let a server's stand-in for minus infinity, -9999, count as that before the harness adds it to other tokens'."""
    parse = getattr(lm, "parse_logprobs", None)
    if not is_a(lm, "TemplateAPI") or parse is None:
        yield
        return

    def parsed(outputs: Any, **kwargs: Any) -> Any:
        for output in outputs if isinstance(outputs, list) else [outputs]:
            for choice in output.get("choices", []):
                told = choice.get("logprobs") or {}
                if told.get("token_logprobs"):
                    told["token_logprobs"] = [
                        -math.inf if value is not None and value <= CLAMPED else value
                        for value in told["token_logprobs"]
                    ]
        return parse(outputs=outputs, **kwargs)

    lm.parse_logprobs = parsed
    try:
        yield
    finally:
        del lm.parse_logprobs
