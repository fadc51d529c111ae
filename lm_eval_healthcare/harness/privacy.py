"""Credentialed data stays where it is: nothing is pushed, sent to a remote model, or written into sample logs.

The texts are replaced after they have been scored, in what the harness logs: documents, prompts, replies, targets.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lm_eval._cli import HarnessCLI
from lm_eval.api.model import CacheHook
from lm_eval.config.evaluate_config import EvaluatorConfig

from lm_eval_healthcare.harness import requests
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.rows import answer_key, by_document
from lm_eval_healthcare.results.samples_file import HIDDEN_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.data.catalogue import TaskFacts
    from lm_eval_healthcare.harness.options import Options

HIDDEN = "(text of a credentialed data set; keep_text=yes keeps it in the log)"
# Model types of the harness that talk to a company's servers unless they are given another address.
_REMOTE_MODELS = re.compile(r"^(?:openai|azure-openai|anthropic|litellm|textsynth|watsonx)", re.IGNORECASE)
_LOCAL_SUFFIXES = (".local", ".localdomain", ".lan", ".internal", ".intranet", ".home.arpa")
_REMOTE_MODULES = frozenset(
    {"anthropic_llms", "api_models", "ibm_watsonx_ai", "litellm_llms", "openai_completions", "textsynth"}
)
_GUARDED = "credentialed_"
_OURS = ("choice_loglikelihood", "answer_loglikelihood", "relaxed_perplexity", "repeated_generation")
_quiet: set[str] = set()


def refuse_to_leave(facts: TaskFacts, options: Options, metadata: Mapping[str, Any]) -> None:
    """Refuse a command that would take credentialed data off this machine or network.

    Args:
        facts: The task; anything but credentialed data may go anywhere.
        options: The pack's options; `send_text=yes` allows a remote model.
        metadata: The task's metadata, into which the harness merges the model's arguments.

    Raises:
        OptionError: With what was asked for and what to do instead.
    """
    if not facts.credentialed:
        return
    given = destinations(sys.argv)
    pushed = sorted(key for key, value in (given.get("hf_hub_log_args") or {}).items() if "push_" in key and value)
    if pushed:
        raise OptionError(
            f"{facts.name}: results and samples of credentialed data are not pushed to a hub; leave out "
            f"{' and '.join(pushed)} in --hf_hub_log_args"
        )
    for flag in ("wandb_args", "trackio_args"):
        if given.get(flag):
            raise OptionError(
                f"{facts.name}: samples of credentialed data are not logged elsewhere; leave out --{flag}"
            )
    if given.get("write_out") and options.keep_text != "yes":
        raise OptionError(
            f"{facts.name}: --write_out prints prompts, and texts of credentialed data are not put into logs; leave it "
            "out, or set keep_text=yes"
        )
    url = str(metadata.get("base_url") or "")
    model = str(given.get("model") or "")
    if options.send_text != "yes" and (not is_near(url) if url else bool(_REMOTE_MODELS.match(model))):
        raise OptionError(_remote(facts.name, url or model))


def guarded(request_type: str) -> str:
    """Return the request type that asks the same as `request_type`, but of no model outside this network.

    It has the model in hand, whatever way it was made, and keeps the harness's cache of replies out of it.
    """
    return f"{_GUARDED}{request_type}"


def _answer_guarded(request_type: str) -> Callable[[Any, list[Instance]], list[Any]]:
    def answer(lm: Any, instances: list[Instance]) -> list[Any]:
        """Ask a model about credentialed data, if it is on this machine or network; nothing is cached."""
        module = type(lm).__module__.rpartition(".")[2]
        url = str(getattr(lm, "base_url", "") or "")
        if not is_near(url) if url else module in _REMOTE_MODULES:
            raise OptionError(_remote(str(instances[0].task_name), url or type(lm).__name__))
        hook, lm.cache_hook = lm.cache_hook, CacheHook(None)
        try:
            return getattr(lm, request_type)(instances)
        finally:
            lm.cache_hook = hook

    return answer


for _name in ("generate_until", "loglikelihood", "loglikelihood_rolling", *_OURS):
    requests.register(guarded(_name), _answer_guarded(_name))


def _remote(task: str, where: str) -> str:
    return (
        f"{task}: the model at {where} is not on this machine or network, and the texts of credentialed data may not "
        "be sent there. Use a local model, or send_text=yes if your agreement for the data allows it."
    )


def no_write_out(task: str) -> None:
    """Keep the harness's `write_out` from printing the texts of a task, however it was asked for."""
    logger = logging.getLogger("lm_eval.evaluator_utils")

    def hide_texts(record: logging.LogRecord) -> bool:
        if record.funcName == "print_writeout" and task in record.getMessage():
            record.msg, record.args = f"{task}: {HIDDEN}", ()
        return True

    if task not in _quiet:
        _quiet.add(task)
        logger.addFilter(hide_texts)


def is_near(url: str) -> bool:
    """Say whether an address is on this machine or in a private network."""
    host = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith(_LOCAL_SUFFIXES)
    return address.is_loopback or address.is_private


def hide(
    instances: Sequence[Instance], filters: Sequence[str], scores: Mapping[str, dict[str, Any]]
) -> tuple[dict[int, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Put placeholders where texts would be logged.

    Args:
        instances: A task's answered requests; documents, prompts and replies are replaced in place.
        filters: The filters whose results are logged.
        scores: Scores by `answer_key` of document and answers.

    Returns:
        The placeholder of each document by its number, and the scores by the keys of placeholders.
    """
    documents = {instance.doc_id: instance.doc for instance in instances}
    shown = {number: hidden_document(number) for number in documents}
    found = {}
    for name in filters:
        for number, (doc, results) in zip(documents, by_document(instances, name), strict=True):
            key = answer_key(doc, results)
            if key in scores:
                found[answer_key(shown[number], [hidden(result) for result in results])] = scores[key]
    for instance in instances:
        instance.doc = shown[instance.doc_id]
        instance.arguments = tuple(hidden(argument) for argument in instance.args)
        instance.resps = [hidden(reply) for reply in instance.resps]
        instance.filtered_resps = {name: hidden(reply) for name, reply in instance.filtered_resps.items()}
    return shown, found


def hidden(value: Any) -> Any:
    """Return `value` with every text in it replaced; numbers stay."""
    if isinstance(value, str):
        return HIDDEN
    if isinstance(value, dict):
        return dict(value)  # arguments of the generation, not texts
    if isinstance(value, list | tuple):
        return type(value)(hidden(item) for item in value)
    return value


def hidden_document(doc_id: int) -> dict[str, Any]:
    """Return what is logged in place of a document: its number, and nothing that its rows hold."""
    return {HIDDEN_ROW: doc_id, "text": HIDDEN}


def destinations(argv: Sequence[str]) -> dict[str, Any]:
    """Return what the harness's own command says about where things go, read as the harness reads it.

    Args:
        argv: The process's arguments, the program first.

    Returns:
        What was given, by name; nothing if this is another program.
    """
    if Path(argv[0]).stem not in ("lm_eval", "lm-eval", "__main__"):
        return {}
    before, quiet = sys.argv, io.StringIO()
    try:
        sys.argv = list(argv)
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            args = HarnessCLI().parse_args()
            file = EvaluatorConfig.load_yaml_config(args.config) if getattr(args, "config", None) else {}
    except (Exception, SystemExit):  # the harness ends at the same fault
        return {}
    finally:
        sys.argv = before
    return {**file, **{key: value for key, value in vars(args).items() if value}}
