"""What a run would cost, before anything is spent: requests, tokens and minutes of the model and of its judge."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval.evaluator_utils import get_sample_size

from lm_eval_healthcare.harness.open_ended import OpenEndedTask
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.plan_judge import Judge, JudgeCount, JudgeTokens
from lm_eval_healthcare.harness.plan_notes import GIVEN, MEASURED, REFERENCE, notes_of
from lm_eval_healthcare.harness.plan_probe import Probed, probe, refuse_probe
from lm_eval_healthcare.harness.plan_requests import GENERATION, LIKELIHOOD, RELAXED, Amount, count, kind_of
from lm_eval_healthcare.harness.plan_tokens import CountingModel
from lm_eval_healthcare.harness.relaxed_engines import GENERIC
from lm_eval_healthcare.harness.run import Prepared, prepare
from lm_eval_healthcare.harness.task import HealthcareTask

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.judge.options import JudgeOptions

logger = logging.getLogger(__name__)

_KEPT = 64  # documents of each task that a probe may ask about


@dataclass(frozen=True)
class Rates:
    """How fast a model is, in tokens per second over all requests together; None where it is not known.

    Attributes:
        prompt: Tokens of prompts that are read.
        output: Tokens of answers that are written.
        likelihood: Tokens whose likelihoods are computed; None: as prompts.
    """

    prompt: float | None = None
    output: float | None = None
    likelihood: float | None = None

    def minutes(self, prompt: float, output: float, kind: str = GENERATION) -> float | None:
        """Return the minutes that so many tokens take; None if a rate that is needed is not known."""
        reading = (self.likelihood or self.prompt) if kind == LIKELIHOOD else self.prompt
        needed = [(tokens, rate) for tokens, rate in ((prompt, reading), (output, self.output)) if tokens]
        if any(rate is None for _, rate in needed):
            return None
        return sum(tokens / rate for tokens, rate in needed if rate) / 60


@dataclass(frozen=True)
class PlanOptions:
    """What `plan` is told beside what a run is told.

    Attributes:
        rates: How fast the model is, if the user knows.
        probe: Seconds for which the model is really run; 0: it is not loaded.
        answer_tokens: Tokens of a usual answer; None: as many as the reference has, or as the probe finds.
        judge: The judge; None: that of the run, if it has one.
        judge_rates: How fast it is.
    """

    rates: Rates = Rates()
    probe: float = 0
    answer_tokens: int | None = None
    judge: JudgeOptions | None = None
    judge_rates: Rates = Rates()


@dataclass
class TaskPlan:
    """What the evaluated model does for one task.

    Attributes:
        task: The task.
        kind: `generation`, `likelihood` or `relaxed`.
        documents: Documents that are asked about.
        requests: Requests; for `relaxed` documents that have something to score.
        prompt_tokens: Tokens that the model is given, exact if the tokenizer is here. For `relaxed` those of one
            forward pass a branch, the most that there can be.
        prompt_tokens_computed: Tokens that it must compute at least, common beginnings once.
        output_tokens: Tokens of the answers, estimated.
        output_tokens_most: Tokens of the answers if each is as long as it may be.
        longest_prompt: Tokens of the longest prompt, whole.
        prompts_cut: Prompts that lose tokens, since they do not fit into the context beside the answer.
        targets: For `relaxed`: texts that are scored.
        branches: For `relaxed`: how often a text is scored after a prefix, at most.
        minutes: Estimated time; None if no rate is known.
        minutes_most: The time if all is as long as it may be.
    """

    task: str
    kind: str
    documents: int
    requests: int
    prompt_tokens: int
    prompt_tokens_computed: int
    output_tokens: int
    output_tokens_most: int
    longest_prompt: int
    prompts_cut: int
    targets: int = 0
    branches: int = 0
    minutes: float | None = None
    minutes_most: float | None = None


@dataclass
class Plan:
    """What a run would cost.

    Attributes:
        model: The harness's name of the back end.
        model_source: The model's folder or name.
        tokens_exact: Whether tokens are counted with the model's own tokenizer; else they are characters / 4.
        context: The model's context in tokens; None if it is not known.
        answer_length: Where estimates of answers' lengths come from.
        rates: Tokens per second that times are made of.
        tasks: A row for each task.
        judge: A row for each task that is judged.
        judge_facts: The judge and how it is asked; None if there is none.
        probed: What the probe found; None if there was none.
        notes: What a reader should know.
    """

    model: str
    model_source: str
    tokens_exact: bool
    context: int | None
    answer_length: str
    rates: Rates
    tasks: list[TaskPlan] = field(default_factory=list)
    judge: list[JudgeTokens] = field(default_factory=list)
    judge_facts: dict[str, Any] | None = None
    probed: Probed | None = None
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)


@dataclass
class _Counted:
    """What is known of one task before times are made: its row, and the estimated answer of each generation."""

    row: TaskPlan
    answers: list[tuple[int, int]]  # of each request that generates: estimated and most tokens
    judged: JudgeCount | None


def plan(argv: Sequence[str], options: PlanOptions) -> Plan:
    """Count what a run would cost.

    Args:
        argv: The arguments of `lm-eval-healthcare run`.
        options: What is planned beside the run.

    Raises:
        OptionError: If the run would end before its model is loaded, or the judge cannot be used.
    """
    prepared = prepare(argv)
    config = prepared.config
    if options.probe:
        refuse_probe(config)
    tasks = prepared.tasks or prepared.manager.load(prepared.names)["tasks"]
    lm = CountingModel(config.model, config.model_args or {})
    asked = options.judge or next(filter(None, map(_judge_of_the_run, tasks.values())), None)
    judge = Judge(asked) if asked else None
    _configure(tasks, config)
    if config.apply_chat_template and lm.exact:
        try:
            lm.chat_template(config.apply_chat_template)
        except ValueError as error:
            raise OptionError(f"--apply_chat_template: {error}") from error
    counted, first = {}, {}
    for name, task in tasks.items():
        _build(task, prepared, lm)
        instances = task.instances
        answers = _answers(lm, task, instances, options.answer_tokens)
        judged = judge.count(task, instances, lm) if judge and isinstance(task, OpenEndedTask) else None
        counted[name] = _Counted(_row(name, instances, count(lm, instances, name), answers), answers, judged)
        first[name] = [one for one in instances if one.doc_id < _KEPT] if options.probe else []
        task._instances = None  # prompts of one task at a time are enough
    probed = probe(prepared, lm, first, options.probe) if options.probe else None
    return _put_together(prepared, lm, options, counted, probed, judge)


def _configure(tasks: Mapping[str, Any], config: Any) -> None:
    """Set on tasks what the harness sets before it builds requests, so that examples are drawn alike."""
    import numpy as np

    seeds = list(config.seed) if isinstance(config.seed, list | tuple) else [config.seed] * 4
    if seeds[0] is not None:
        random.seed(seeds[0])
    if seeds[1] is not None:
        np.random.seed(seeds[1])  # noqa: NPY002  (the generator that tasks of the harness draw from)
    for task in tasks.values():
        if config.gen_kwargs and task.get_config("output_type") == "generate_until":
            task.set_config(key="generation_kwargs", value=config.gen_kwargs, update=True)
        own = task.get_config("num_fewshot")
        if config.num_fewshot is not None and own != 0:
            task.set_config(key="num_fewshot", value=config.num_fewshot)
        elif own is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=seeds[3])


def _judge_of_the_run(task: Any) -> JudgeOptions | None:
    return task.options.for_judge if isinstance(task, OpenEndedTask) else None


def _build(task: Any, prepared: Prepared, lm: CountingModel) -> None:
    """Let a task build its requests, without what an open-ended one prepares for scoring."""
    config = prepared.config
    chat = config.apply_chat_template
    arguments = {
        "limit": get_sample_size(task, config.limit),
        "samples": sorted(set(config.samples[task.task_name])) if _selected(config, task) else None,
        "system_instruction": config.system_instruction,
        "apply_chat_template": bool(chat),
        "fewshot_as_multiturn": bool(config.fewshot_as_multiturn),
        "chat_template": lm.apply_chat_template if chat else None,
        "tokenizer_name": lm.tokenizer_name if chat else "",
    }
    if isinstance(task, OpenEndedTask):
        HealthcareTask.build_all_requests(task, **arguments)
    else:
        task.build_all_requests(**arguments)


def _selected(config: Any, task: Any) -> bool:
    return bool(config.samples) and task.task_name in config.samples


def _answers(lm: CountingModel, task: Any, instances: Sequence[Instance], given: int | None) -> list[tuple[int, int]]:
    """Return the estimated and the most tokens of each answer that is written."""
    asked = [one for one in instances if kind_of(one) == GENERATION]
    references = [first_reference(task, one.doc) if given is None else "" for one in asked]
    lengths = lm.lengths(references, add_special_tokens=False) if given is None else [given] * len(asked)
    return [
        (min(length, most), most)
        for one, length in zip(asked, lengths, strict=True)
        for most in [lm.answer_limit(one.args[1])] * max(1, one.repeats or 1)
    ]


def first_reference(task: Any, doc: Any) -> str:
    """Return the first reference of a document; blank if there is none."""
    target = task.doc_to_target(doc)
    if isinstance(target, list | tuple):
        target = next((text for text in target if text is not None), None)
    return "" if target is None else str(target)


def _row(name: str, instances: Sequence[Instance], amount: Amount, answers: Sequence[tuple[int, int]]) -> TaskPlan:
    kind = kind_of(instances[0])
    return TaskPlan(
        task=name,
        kind=kind,
        documents=len({one.doc_id for one in instances}),
        requests=amount.requests,
        prompt_tokens=amount.prompt,
        prompt_tokens_computed=amount.computed,
        output_tokens=amount.output_most if kind == RELAXED else sum(length for length, _ in answers),
        output_tokens_most=amount.output_most,
        longest_prompt=amount.longest,
        prompts_cut=amount.cut,
        targets=amount.targets,
        branches=amount.branches,
    )


def _put_together(
    prepared: Prepared,
    lm: CountingModel,
    options: PlanOptions,
    counted: Mapping[str, _Counted],
    probed: Probed | None,
    judge: Judge | None,
) -> Plan:
    """Make times of tokens."""
    config = prepared.config
    rates = _rates(options.rates, probed)
    measured = probed.answer_tokens if probed and options.answer_tokens is None else {}
    arguments = config.model_args or {}
    out = Plan(
        model=config.model,
        model_source=str(arguments.get("pretrained") or arguments.get("model") or ""),
        tokens_exact=lm.exact,
        context=lm.context,
        answer_length=GIVEN if options.answer_tokens is not None else MEASURED if measured else REFERENCE,
        rates=rates,
        probed=probed,
        judge_facts=judge.facts if judge else None,
    )
    for name, one in counted.items():
        row = one.row
        if name in measured:
            row.output_tokens = round(sum(min(measured[name], most) for _, most in one.answers))
        reads_all = row.kind == RELAXED and _reads_all(lm, prepared.tasks.get(name))
        prompt = row.prompt_tokens if reads_all else row.prompt_tokens_computed
        row.minutes = rates.minutes(prompt, row.output_tokens, row.kind)
        row.minutes_most = rates.minutes(row.prompt_tokens, row.output_tokens_most, row.kind)
        out.tasks.append(row)
        if one.judged is not None:
            found = one.judged.tokens(measured.get(name, options.answer_tokens))
            found.minutes = options.judge_rates.minutes(found.prompt_tokens, found.output_tokens)
            found.minutes_most = options.judge_rates.minutes(found.prompt_tokens_most, found.output_tokens_most)
            out.judge.append(found)
    out.notes = notes_of(out)
    return out


def _rates(given: Rates, probed: Probed | None) -> Rates:
    """Return the rates that the user gave, the others as the probe measured them."""
    if probed is None:
        return given
    return Rates(
        given.prompt or probed.prompt_rate,
        given.output or probed.output_rate,
        None if given.prompt else probed.likelihood_rate,
    )


def _reads_all(lm: CountingModel, task: Any) -> bool:
    """Say whether Relaxed Perplexity is computed with a whole forward pass for each branch."""
    own = {"HFLM", "VLLM"} & set(lm.stands_for)
    return not own or getattr(getattr(task, "relaxed", None), "engine", None) == GENERIC
