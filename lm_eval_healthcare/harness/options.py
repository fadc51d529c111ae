"""The pack's run-time options: from the harness's `--metadata`, or from environment variables for fixed pipelines."""

from __future__ import annotations

import difflib
import functools
import os
import re
from collections import defaultdict
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import metrics, tasks_path
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.options import OPENAI, JudgeOptions
from lm_eval_healthcare.judge.options import OPTIONS as JUDGE_OPTIONS
from lm_eval_healthcare.metrics.settings import Compute
from lm_eval_healthcare.relaxed_perplexity.settings import option_names as relaxed_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lm_eval_healthcare.data.catalogue import TaskFacts

_FOR_METRICS = "metric_options"
_FOR_JUDGE = "judge_options"
JUDGE_OFF = "off"
_RELAXED, _REPEATED = "RelaxedPerplexityTask", "RepeatedAnswersTask"
REPEATED_NAMES = ("repeats", "repeats_seed", "repeats_cache")
"""Options of the tasks that ask each question several times."""
ENVIRONMENT_PREFIX = "LM_EVAL_HEALTHCARE_"
PROMPTS = ("harness", "pack")
REASONING = ("auto", "on", "off")
YES_NO = ("no", "yes")
MISSING = ("fail", "skip")
LATER = "later"
JUDGE_NAMES = ("judge_model", *(f"judge_{name}" for name in JUDGE_OPTIONS if name != "base_url"))
_WORDS = {
    "keep_text": YES_NO,
    "send_text": YES_NO,
    "bert_score_rescale": YES_NO,
    "send_credentialed_texts_to_a_remote_judge": YES_NO,
}  # what a boolean means; else off, on


class OptionError(UserError, ValueError):
    """An option of the pack has a value or a name that cannot be used."""


@dataclass(frozen=True)
class Options:
    """Options of the pack; each is a key of `--metadata` and, upper-cased behind `LM_EVAL_HEALTHCARE_`, a variable.

    Attributes:
        data: `hub`, `sample`, or a local folder.
        data_revision: Revision of the hub's data set.
        metrics: `default`, `ngram`, `all`, or names joined by `+`.
        metrics_missing: What happens to a metric whose model or package cannot be had: `fail` ends the run before the
            model is asked, `skip` leaves the metric's scores NaN.
        metrics_device: Where neural metrics run: `auto`, `cpu`, `cuda`, `cuda:N`; or `later`: not in the run, but by
            `lm-eval-healthcare score` on its saved answers.
        score_cache: Folder in which scores of neural metrics are kept for other runs; `off` keeps none.
        metric_options: Options of single metrics, such as `bert_score_model`.
        prompt: `harness` (the harness's instruction, comparable with published scores) or `pack` (our own wording).
        answers: Folder in which answers are saved before they are scored; `off` saves none.
        reasoning: What is done about `<think>` blocks in answers: `auto` takes them out before scoring; `on` also keeps
            stop strings from the model, which would end it inside its reasoning; `off` scores answers as they are.
        fewshot_holdout: Number of scored rows that become few-shot examples instead, where there is no other split.
        judge: The judge that grades answers from 1 to 5: a folder, a hub id, or a server's address; `off` for none.
        verdict_cache: Folder in which the judge's texts are kept; `off` keeps none.
        judge_options: Options of the judge, such as `judge_preset`, see `judge.options`.
        send_credentialed_texts_to_a_remote_judge: Whether a judge on another machine may be sent texts of credentialed
            data sets: `no` or `yes`.
        send_text: Whether texts of credentialed data sets may go to a model outside this network: `no` or `yes`.
        keep_text: Whether texts of credentialed data sets stay in sample logs and saved answers: `no` or `yes`.
    """

    data: str = "hub"
    data_revision: str | None = None
    metrics: str = "default"
    prompt: str = "harness"
    answers: str | None = None
    reasoning: str = "auto"
    fewshot_holdout: str = "0"
    keep_text: str = "no"
    send_text: str = "no"
    metrics_missing: str = "fail"
    metrics_device: str = "auto"
    score_cache: str | None = None
    judge: str | None = None
    verdict_cache: str | None = None
    send_credentialed_texts_to_a_remote_judge: str = "no"
    metric_options: dict[str, str] = field(default_factory=dict)
    judge_options: dict[str, str] = field(default_factory=dict)

    @property
    def for_judge(self) -> JudgeOptions | None:
        """The judge and how it is asked; None if there is none.

        Raises:
            OptionError: If an option has a value that cannot be used.
        """
        if self.judge is None and self.judge_options:
            raise OptionError(f"{', '.join(self.judge_options)}: there is no judge; name one with judge=...")
        if self.judge in (None, JUDGE_OFF):
            return None
        judge = str(self.judge)
        given: dict[str, Any] = {name.removeprefix("judge_"): value for name, value in self.judge_options.items()}
        models = tuple(filter(None, [given.pop("model", None)]))
        if re.match("https?://", judge, re.IGNORECASE):
            if re.search("[@?#]", judge):
                raise OptionError(
                    "judge: the server's address may hold no password and no query, since options are written into "
                    "results; put the key into an environment variable and name it with judge_api_key_env"
                )
            given["base_url"] = judge
        elif models:
            raise OptionError(f"judge={judge}, judge_model={models[0]}: judge_model goes with a server; leave it out")
        elif given.get("backend") == OPENAI:
            raise OptionError(
                f"judge={judge}: the back end openai needs a server, such as judge=http://127.0.0.1:8000/v1"
            )
        else:
            models = (judge,)
        try:
            return JudgeOptions.of(models, given)
        except JudgeError as error:
            raise OptionError(f"judge={judge}: {error}") from error

    @property
    def for_metrics(self) -> dict[str, str]:
        """The options that `metrics.score` takes."""
        device = {} if self.metrics_device == LATER else {"metrics_device": self.metrics_device}
        return {**self.metric_options, **device}

    @property
    def metric_options_that_matter(self) -> dict[str, str]:
        """The options of metrics that change scores, for the results: all but how fast they run."""
        return {name: value for name, value in self.metric_options.items() if name != "metrics_batch_tokens"}

    def as_metadata(self) -> dict[str, str]:
        """Return what `--metadata` would have to hold to give these options."""
        parts = (_FOR_METRICS, _FOR_JUDGE)
        values = {name: value for name, value in asdict(self).items() if value is not None and name not in parts}
        return {**values, **self.metric_options, **self.judge_options}

    @property
    def holdout(self) -> int:
        """`fewshot_holdout` as a number."""
        return int(self.fewshot_holdout)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any] | None) -> Options:
        """Read the options of one task: the flag wins over the environment, the environment over the default.

        Raises:
            OptionError: If a value is not allowed.
        """
        values: dict[str, Any] = {_FOR_METRICS: {}, _FOR_JUDGE: {}}
        own = {option.name for option in fields(cls)}
        for name in option_names():
            value = given_option(name, metadata)
            if value is not None:
                part = values if name in own else values[_FOR_JUDGE if name in JUDGE_NAMES else _FOR_METRICS]
                part[name] = value if name in own and name != "judge" else _anywhere(name, value)
        options = cls(**values)
        options.metric_names(("en",))
        options.for_judge  # noqa: B018  # raises if it cannot be used
        try:
            Compute.from_options(options.for_metrics)
        except ValueError as error:
            raise OptionError(str(error)) from error
        if (options.answers or "").startswith("~") and os.path.expanduser(options.answers or "") == options.answers:
            raise OptionError(
                f"answers={options.answers}: there is no such user's home here; give a folder by its path"
            )
        for name, allowed in (
            ("prompt", PROMPTS),
            ("reasoning", REASONING),
            ("metrics_missing", MISSING),
            ("keep_text", YES_NO),
            ("send_text", YES_NO),
            ("send_credentialed_texts_to_a_remote_judge", YES_NO),
        ):
            if getattr(options, name) not in allowed:
                raise OptionError(f"{name}={getattr(options, name)}: expected one of {', '.join(allowed)}")
        if not re.fullmatch("[0-9]+", options.fewshot_holdout):
            raise OptionError(f"fewshot_holdout={options.fewshot_holdout}: expected a number of rows, such as 32")
        return options

    def metric_names(self, languages: Sequence[str]) -> list[str]:
        """Resolve `metrics` for a task in these languages.

        Raises:
            OptionError: If a name is unknown.
        """
        try:
            return metrics.resolve(self.metrics, languages=tuple(languages))
        except ValueError as error:
            raise OptionError(f"metrics={self.metrics}: {error}") from error


def task_options(facts: TaskFacts, metadata: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the values of a task's own options, defaults filled in.

    Raises:
        OptionError: If a value is not allowed.
    """
    try:
        return {name: option.choose(given_option(name, metadata)) for name, option in facts.options.items()}
    except ValueError as error:
        raise OptionError(f"{facts.name}: {error}") from error


def given_option(name: str, metadata: Mapping[str, Any] | None) -> str | None:
    """Return an option's value from `--metadata` or the environment, as text; None if neither has it.

    Raises:
        OptionError: If the value is blank.
    """
    value = (metadata or {}).get(name)
    if value is None:
        value = os.environ.get(ENVIRONMENT_PREFIX + name.upper()) or None
    if value is None:
        return None
    text = _as_text(value, name)
    if not text.strip():
        raise OptionError(f"{name}= is empty; give a value, or leave it out for the default")
    return text


def _anywhere(name: str, value: str) -> str:
    """Return the path of a metric's model as one that is good in every folder: `score` may run in another."""
    is_model = name.endswith(("_model", "_tokenizer")) and name != "judge_model"  # which is a server's name
    if not (is_model or name in ("bert_score_rescale", "judge")):
        return value
    path = os.path.expanduser(value)
    is_path = os.path.isdir(path) or (os.sep in path and os.path.exists(path))
    return os.path.abspath(path) if is_path else value


def _as_text(value: Any, name: str) -> str:
    if isinstance(value, bool):  # YAML and JSON read `off`, `on`, `yes`, `no` as booleans
        return _WORDS.get(name, ("off", "on"))[value]
    if str(value).lower() == "off":
        return "off"
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def option_names() -> list[str]:
    """Return the names of the options that every task has, those of the metrics among them."""
    own = [option.name for option in fields(Options) if option.name not in (_FOR_METRICS, _FOR_JUDGE)]
    return list(dict.fromkeys([*own, *metrics.option_names(), *JUDGE_NAMES]))


@functools.cache
def all_option_names() -> tuple[str, ...]:
    """Return the names of all options: those that every task has, and those of single tasks."""
    tasks = (facts_from_config(entry.config) for entry in catalogue(tasks_path()) if entry.kind == "task")
    own = (name for facts in tasks for name in facts.options)
    return tuple(dict.fromkeys([*option_names(), *own, *relaxed_options(), *REPEATED_NAMES]))


def options_of_others(given: Iterable[str], tasks: Iterable[str]) -> list[str]:
    """Return one message for each option that only tasks have which are not run, so that it changes nothing."""
    owners: dict[str, set[str]] = defaultdict(set)
    known: set[str] = set()
    relaxed: set[str] = set()
    repeated: set[str] = set()
    for entry in catalogue(tasks_path()):
        if entry.kind == "task":
            known.add(entry.name)
            for option in facts_from_config(entry.config).options:
                owners[option].add(entry.name)
            if str(entry.config.get("class")).endswith(_RELAXED):
                relaxed.add(entry.name)
            if str(entry.config.get("class")).endswith(_REPEATED):
                repeated.add(entry.name)
    owners.update({option: relaxed for option in relaxed_options()})
    owners.update({option: repeated for option in REPEATED_NAMES})
    given, run = list(given), set(tasks)
    messages = [
        f"option '{name}' changes nothing here: it belongs to {', '.join(sorted(owners[name])[:3])}, which are not run"
        for name in given
        if name in owners and not owners[name] & run and run <= known  # a user's own task may have any option
    ]
    if "metrics" in given and run and run <= relaxed:
        messages.append(
            "option 'metrics' changes nothing here: these tasks have no generated texts that are scored; what they "
            "report is chosen by relaxed_readings"
        )
    return messages


def unknown_variables() -> list[str]:
    """Return one message for each environment variable that looks like an option and is none."""
    known = {ENVIRONMENT_PREFIX + name.upper() for name in all_option_names()} | {ENVIRONMENT_PREFIX + "DEMO_MODEL"}
    strange = sorted(name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX) and name not in known)
    return [f"unknown environment variable {name}; the pack knows {', '.join(sorted(known))}" for name in strange]


def unknown_options(names: Iterable[str], strict: bool) -> list[str]:
    """Return one message for each name that is probably a misspelt option.

    Args:
        names: Keys of `--metadata`.
        strict: Report every unknown name; otherwise only those that nearly are an option, since other tasks and the
            model's arguments share the name space.
    """
    known = all_option_names()
    messages = []
    for name in names:
        if name in known:
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5 if strict else 0.85)
        if strict or close:
            hint = f"; did you mean '{close[0]}'?" if close else ""
            messages.append(f"unknown option '{name}' in --metadata; the pack knows {', '.join(known)}{hint}")
    return messages
