"""Credentialed data stays where it is: nothing is pushed, sent to a remote model, or written into sample logs.

The texts are replaced after they have been scored, in what the harness logs: documents, prompts, replies, targets.
"""

from __future__ import annotations

import argparse
import ipaddress
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.rows import answer_key, by_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.data.catalogue import TaskFacts
    from lm_eval_healthcare.harness.options import Options

HIDDEN = "(text of a credentialed data set; keep_text=yes keeps it in the log)"
HIDDEN_ROW = "hidden_row"
# Model types of the harness that talk to a company's servers unless they are given another address.
_REMOTE_MODELS = re.compile(r"^(?:openai|azure-openai|anthropic|litellm|textsynth|watsonx)", re.IGNORECASE)
_LOCAL_SUFFIXES = (".local", ".localdomain", ".lan", ".internal", ".intranet", ".home.arpa")
_PUSHES = re.compile(r"push_(?:results|samples)_to_hub['\"]?\s*[=:]\s*['\"]?(?:true|1|yes)", re.IGNORECASE)


def refuse_to_leave(facts: TaskFacts, options: Options, metadata: Mapping[str, Any]) -> None:
    """Refuse a run that would take credentialed data off this machine or network.

    Args:
        facts: The task; anything but credentialed data may go anywhere.
        options: The pack's options; `send_text=yes` allows a remote model.
        metadata: The task's metadata, into which the harness merges the model's arguments.

    Raises:
        OptionError: With what was asked for and what to do instead.
    """
    if not facts.credentialed:
        return
    given = _command(sys.argv)
    if _PUSHES.search(given["hf_hub_log_args"]):
        raise OptionError(
            f"{facts.name}: results and samples of credentialed data are not pushed to a hub; leave out "
            "push_results_to_hub and push_samples_to_hub in --hf_hub_log_args"
        )
    for flag in ("wandb_args", "trackio_args"):
        if given[flag]:
            raise OptionError(
                f"{facts.name}: samples of credentialed data are not logged elsewhere; leave out --{flag}"
            )
    url = str(metadata.get("base_url") or "")
    remote = not is_near(url) if url else bool(_REMOTE_MODELS.match(given["model"]))
    if remote and options.send_text != "yes":
        raise OptionError(
            f"{facts.name}: the model at {url or given['model']} is not on this machine or network, and the texts of "
            "credentialed data may not be sent there. Use a local model, or send_text=yes if your agreement for the "
            "data allows it."
        )


def is_near(url: str) -> bool:
    """Say whether an address is on this machine or in a private network."""
    host = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith(_LOCAL_SUFFIXES)
    return address.is_loopback or address.is_private


def hide(
    instances: Sequence[Instance], filters: Sequence[str], scores: Mapping[str, dict[str, Any]], kept: Sequence[str]
) -> tuple[dict[int, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Put placeholders where texts would be logged.

    Args:
        instances: A task's answered requests; documents, prompts and replies are replaced in place.
        filters: The filters whose results are logged.
        scores: Scores by `answer_key` of document and answers.
        kept: Columns by which scores are reported; they stay.

    Returns:
        The placeholder of each document by its number, and the scores by the keys of placeholders.
    """
    documents = {instance.doc_id: instance.doc for instance in instances}
    shown = {number: hidden_document(doc, number, kept) for number, doc in documents.items()}
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


def hidden_document(doc: Mapping[str, Any], doc_id: int, kept: Sequence[str]) -> dict[str, Any]:
    """Return what is logged in place of a document: its number, and the columns that scores are reported by."""
    return {HIDDEN_ROW: doc_id, "text": HIDDEN, **{column: doc[column] for column in kept if column in doc}}


def _command(argv: Sequence[str]) -> dict[str, str]:
    """Return, as text, what the process's command says about where things go."""
    flags = ("hf_hub_log_args", "wandb_args", "trackio_args", "model")
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    for flag in (*flags, "config"):
        parser.add_argument(f"--{flag}", *{"model": ["-M"], "config": ["-C"]}.get(flag, []), nargs="*", action="append")
    found: dict[str, Any] = {}
    try:
        found = {key: value for key, value in vars(parser.parse_known_args(list(argv[1:]))[0]).items() if value}
        if "config" in found:
            content = yaml.safe_load(Path(found.pop("config")[-1][0]).read_text(encoding="utf-8"))
            found = {**(content if isinstance(content, dict) else {}), **found}
    except (argparse.ArgumentError, OSError, IndexError, ValueError, yaml.YAMLError):
        pass  # the harness says what is wrong with its command
    return {flag: _flat(found.get(flag)) for flag in flags}


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ",".join(_flat(item) for item in value)
    return "" if value is None else str(value)
