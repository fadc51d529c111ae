"""Freeing the evaluated model after its last answer, so that a judge has the memory.

The harness asks a model everything before the first task is scored, and of the model object only facts afterwards:
rank, number of ranks, what `get_model_info` says, tokenizer, context length. Here the weights go and the facts stay.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar

from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.harness.relaxed_codec import is_a

logger = logging.getLogger(__name__)

_EVALUATOR = "lm_eval.evaluator"
_REQUESTS = ("loglikelihood", "loglikelihood_rolling", "generate_until", "choice_loglikelihood", "relaxed_perplexity")
_TOLD = (
    "the evaluated model was freed after its last answer, so that the judge has the memory, and cannot answer again: "
    "give simple_evaluate the model's name instead of this object, or judge after the run with `lm-eval-healthcare "
    "judge`"
)


class ModelReleased(UserError, AttributeError):
    """Something that needs the weights was asked of a model whose weights are gone."""

    def __init__(self) -> None:
        """Say why, and what to do."""
        super().__init__(_TOLD)


@dataclass(frozen=True)
class RunningModel:
    """The model of an evaluation that is running.

    Attributes:
        lm: The harness's model object.
        owned: Whether the harness made it from a name; any other belongs to the user, who may go on with it.
    """

    lm: Any
    owned: bool


def running_model() -> RunningModel | None:
    """Return the model of the evaluation that the calling code is part of, the innermost if there are several.

    The harness hands tasks no model. It is looked for on the stack: the function `evaluate` of its evaluator holds it
    as `lm`, and `simple_evaluate`, if that is what called it, what the user gave as `model`.
    """
    frame: FrameType | None = sys._getframe(1)
    lm: Any = None
    while frame is not None:
        if frame.f_globals.get("__name__") == _EVALUATOR:
            name, variables = frame.f_code.co_name, frame.f_locals
            if name == "evaluate" and lm is None:
                lm = variables.get("lm")
            elif name == "simple_evaluate" and lm is not None and variables.get("lm") is lm:
                return RunningModel(lm, owned=isinstance(variables.get("model"), str))
        frame = frame.f_back
    return None if lm is None else RunningModel(lm, owned=False)


def make_room() -> bool:
    """Free the model of the evaluation that the calling code is part of, and return whether it was freed.

    A model that the user made stays where it is, with a warning if it has weights in this process.
    """
    running = running_model()
    if running is None:
        return False
    if running.owned:
        return release(running.lm)
    inner = _inside(running.lm)
    if is_a(inner, "HFLM") or is_a(inner, "VLLM"):
        logger.warning(
            "the evaluated model was given as an object, so it stays in memory beside the judge; give simple_evaluate "
            "the model's name, or judge after the run with `lm-eval-healthcare judge`"
        )
    return False


def release(lm: Any) -> bool:
    """Free the weights of a model of the harness, and return whether there were any to free.

    That is so for transformers models that the harness loaded itself and for vLLM in this process or in one that it
    started. A server's model is the server's, and a network that the user made is the user's. What the harness still
    asks keeps the answers that it had; requests fail with `ModelReleased` from now on.

    Args:
        lm: The model, or the harness's cache around it. Under several ranks, every rank's own.
    """
    lm = _inside(lm)
    if is_a(lm, "HFLM"):
        return _release_transformers(lm)
    if is_a(lm, "VLLM"):
        return _release_vllm(lm)
    return False


def _inside(lm: Any) -> Any:
    """Return the model inside the harness's cache."""
    while is_a(lm, "CachingLM"):
        lm = lm.lm
    return lm


class _Facts:
    """What is left of a model: the answers that the harness's `get_model_info` and properties ask for."""

    _KEPT = ("config", "generation_config", "name_or_path", "device", "training")
    _modules: ClassVar[dict[str, Any]] = {}  # accelerate looks here whether a part is compiled

    def __init__(self, model: Any) -> None:
        """Note them."""
        self.__dict__.update({name: getattr(model, name) for name in self._KEPT if hasattr(model, name)})
        self.dtype = getattr(model, "dtype", "")
        if hasattr(model, "num_parameters"):
            self._parameters = model.num_parameters()
        else:
            self._parameters = sum(p.numel() for p in model.parameters()) if hasattr(model, "parameters") else -1

    def num_parameters(self, *args: Any, **kwargs: Any) -> int:
        """Return the number of parameters that the model had."""
        return int(self._parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse.

        Raises:
            ModelReleased: Always.
        """
        raise ModelReleased

    def __getattr__(self, name: str) -> Any:
        raise ModelReleased


def _release_transformers(lm: Any) -> bool:
    model = getattr(lm, "_model", None)
    if model is None or isinstance(model, _Facts) or not isinstance(getattr(lm, "pretrained", None), str):
        return False
    accelerator = getattr(lm, "accelerator", None)
    network = lm.model
    facts = _Facts(network)
    for name, value in list(vars(lm).items()):
        if value is model or value is network:
            setattr(lm, name, facts)
    del value
    if accelerator is not None:
        accelerator.free_memory()  # it holds what it has prepared
    del model, network
    _close(lm)
    return True


def _release_vllm(lm: Any) -> bool:
    from lm_eval_healthcare.judge.backends.vllm import shut_down

    llm = getattr(lm, "model", None)
    if llm is None or isinstance(llm, _Facts):  # with data_parallel_size each call starts engines and stops them
        return False
    lm._max_length = lm.max_length  # which is asked of the engine
    lm.model = _Facts(llm)
    shut_down(llm)
    _close(lm)
    return True


def _close(lm: Any) -> None:
    """Make the model refuse requests, and give its memory back."""
    from lm_eval_healthcare.judge.backends.local_model import free_memory

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise ModelReleased

    for name in _REQUESTS:
        if hasattr(lm, name):
            setattr(lm, name, refuse)
    free_memory()
    logger.info("the evaluated model's memory is free")
