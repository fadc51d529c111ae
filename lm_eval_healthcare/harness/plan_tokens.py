"""The tokens and the chat template of a model whose weights are not loaded."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import TemplateLM

from lm_eval_healthcare.harness.options import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

logger = logging.getLogger(__name__)

CHARACTERS_A_TOKEN = 4
_BATCH = 256
_DEFAULT_CONTEXT = 2048  # the harness's own, where a model's folder names none
_DEFAULT_ANSWER = 256  # likewise, where neither a task nor a run names one
_CLASSES = {
    "hf": "HFLM", "hf-auto": "HFLM", "huggingface": "HFLM", "vllm": "VLLM", "sglang": "SGLangLM",
    "local-completions": "TemplateAPI", "local-chat-completions": "TemplateAPI",
    "openai-completions": "TemplateAPI", "openai-chat-completions": "TemplateAPI",
}  # fmt: skip
_LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")
_ANSWER_KEYS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


class FourCharacters:
    """Stands in for a tokenizer that is not here: a token for every four characters, begun ones included."""

    bos_token = eos_token = chat_template = None
    bos_token_id = eos_token_id = 0

    def encode(self, text: str, **kwargs: Any) -> list[int]:
        """Return a number for every four characters, equal ones for equal characters."""
        return [hash(text[start : start + CHARACTERS_A_TOKEN]) for start in range(0, len(text), CHARACTERS_A_TOKEN)]

    def decode(self, tokens: Any, **kwargs: Any) -> str:
        """Return nothing, since the characters are not kept."""
        return ""


class CountingModel(TemplateLM):
    """Has the tokens and the chat template of a model of the harness; it answers nothing.

    Attributes:
        exact: Whether tokens are the model's own; else they are estimated from characters.
        context: Most tokens of a prompt and its answer together; None if it is not known.
        max_length: The same as the harness sees it: its default where it is not known.
        stands_for: The name of the harness's class whose limits are those of this model.
    """

    def __init__(self, model: str, arguments: Mapping[str, Any]) -> None:
        """Read what lies on this machine; nothing is fetched from a hub.

        Args:
            model: The harness's name of the back end.
            arguments: The model's arguments.

        Raises:
            OptionError: If the model's folder is here and its tokenizer cannot be read.
        """
        super().__init__()
        self._arguments = dict(arguments)
        own = _CLASSES.get(model, "TemplateAPI" if "completions" in model else "")
        self.stands_for = (own,)
        where = arguments.get("pretrained") or arguments.get("model")
        found = local_tokenizer(arguments.get("tokenizer") or where, self._arguments)
        self.tokenizer: Any = found or FourCharacters()
        # A server fills in its template itself, of which only the texts are known.
        self.exact = found is not None and "chat" not in model
        self.context = self._context(where, server=own == "TemplateAPI")
        self.max_length = self.context or _DEFAULT_CONTEXT
        self.default_answer = int(arguments.get("max_gen_toks") or _DEFAULT_ANSWER)
        self._front = self.tokenizer.decode(self.prefix_token_id) if found and self.prefix_token_id is not None else ""
        self._counted: dict[str, int] = {}

    def _context(self, where: Any, server: bool) -> int | None:
        given = self._arguments.get("max_length") or self._arguments.get("max_model_len")
        if given:
            return int(given) - server  # the harness keeps one of a server's for the answer
        return context_of(where, self._arguments) if not server else _DEFAULT_CONTEXT - 1

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text."""
        return self.tokenizer.eos_token_id

    @property
    def prefix_token_id(self) -> int:
        """The token that stands before a text of which nothing goes before."""
        given = self._arguments.get("prefix_token_id")
        if given is not None:
            return int(given)
        first = self.tokenizer.bos_token_id
        return self.tokenizer.eos_token_id if first is None else first

    @property
    def tokenizer_name(self) -> str:
        """The name of the tokenizer."""
        return str(getattr(self.tokenizer, "name_or_path", "four characters")).replace("/", "__")

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Return a text's tokens as the harness's back ends make them."""
        return list(self.encode_all([string], add_special_tokens)[0])

    def encode_all(self, texts: Sequence[str], add_special_tokens: bool | None = None) -> list[list[int]]:
        """Return the tokens of several texts."""
        if isinstance(self.tokenizer, FourCharacters):
            return [self.tokenizer.encode(text) for text in texts]
        out: list[list[int]] = [[] for _ in texts]
        for begins in (False, True):  # a text that begins with the model's first token gets no second one
            places = [p for p, text in enumerate(texts) if self._begins(text, add_special_tokens) is begins]
            special = self._arguments.get("add_bos_token") if add_special_tokens is None else add_special_tokens
            special = False if begins else special
            kwargs = {} if special is None else {"add_special_tokens": bool(special)}
            for start in range(0, len(places), _BATCH):
                part = places[start : start + _BATCH]
                found = self.tokenizer([texts[p] for p in part], truncation=False, **kwargs)["input_ids"]
                for place, ids in zip(part, found, strict=True):
                    out[place] = ids
        return out

    def _begins(self, text: str, add_special_tokens: bool | None) -> bool:
        return add_special_tokens is None and bool(self._front) and text.startswith(self._front)

    def lengths(self, texts: Sequence[str], add_special_tokens: bool | None = None) -> list[int]:
        """Return the numbers of tokens of several texts."""
        return [len(ids) for ids in self.encode_all(texts, add_special_tokens)]

    def answer_limit(self, kwargs: Mapping[str, Any]) -> int:
        """Return the most tokens of an answer that a request with these generation arguments allows."""
        return int(next((kwargs[key] for key in _ANSWER_KEYS if kwargs.get(key) is not None), self.default_answer))

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Return turns as the model's template lays them out; without a template one after the other.

        Raises:
            OptionError: If the model's tokenizer has no chat template.
        """
        if isinstance(self.tokenizer, FourCharacters):
            return "\n\n".join(turn["content"] for turn in chat_history)
        given = self._arguments.get("chat_template_args") or {}
        options = json.loads(given) if isinstance(given, str) else dict(given)
        if self._arguments.get("enable_thinking") is not None:
            options["enable_thinking"] = self._arguments["enable_thinking"]
        return laid_out(self.tokenizer, chat_history, add_generation_prompt, **options)

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        """Answer nothing."""
        raise NotImplementedError("a model without weights is only asked for tokens")

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        """Answer nothing."""
        raise NotImplementedError("a model without weights is only asked for tokens")

    def _loglikelihood_tokens(self, requests: Any, **kwargs: Any) -> list[tuple[float, bool]]:
        raise NotImplementedError("a model without weights is only asked for tokens")


def laid_out(tokenizer: Any, turns: Iterable[Mapping[str, str]], add_generation_prompt: bool, **options: Any) -> str:
    """Return turns in a tokenizer's chat template; where that knows no system's turn, without one, as the harness does.

    Raises:
        OptionError: If there is no template.
    """
    import jinja2

    turns = [dict(turn) for turn in turns]
    ways = {"tokenize": False, "add_generation_prompt": add_generation_prompt}
    ways["continue_final_message"] = not add_generation_prompt
    try:
        return tokenizer.apply_chat_template(turns, **ways, **options)
    except jinja2.exceptions.TemplateError:
        return tokenizer.apply_chat_template([t for t in turns if t["role"] != "system"], **ways, **options)
    except ValueError as error:
        raise OptionError(f"--apply_chat_template: {error}") from error


def local_tokenizer(where: Any, arguments: Mapping[str, Any]) -> Any | None:
    """Return the tokenizer of a model that lies on this machine.

    Args:
        where: A folder, or a name of the hub whose files may lie in the cache; None: there is none.
        arguments: The model's arguments, of which those are taken that the harness hands to the tokenizer.

    Returns:
        None if there is no such tokenizer here, or nothing to read it with.

    Raises:
        OptionError: If the folder is here and its tokenizer cannot be read.
    """
    if not where:
        return None
    try:
        import transformers
    except ImportError:
        return None
    names = ("revision", "trust_remote_code", "subfolder", "gguf_file", "add_bos_token")
    given = {name: arguments[name] for name in names if arguments.get(name) is not None}
    try:
        return transformers.AutoTokenizer.from_pretrained(str(where), local_files_only=True, **given)
    except Exception as error:  # whatever a tokenizer's own code raises
        if Path(str(where)).is_dir():
            raise OptionError(f"{where}: the tokenizer in this folder cannot be read ({error})") from error
        return None


def context_of(where: Any, arguments: Mapping[str, Any]) -> int | None:
    """Return the context of a model that lies on this machine, in tokens; None if it is not known.

    Args:
        where: A folder or a name of the hub.
        arguments: The model's arguments.
    """
    if not where:
        return None
    try:
        import transformers

        names = ("revision", "trust_remote_code", "subfolder", "gguf_file")
        given = {name: arguments[name] for name in names if arguments.get(name) is not None}
        config = transformers.AutoConfig.from_pretrained(str(where), local_files_only=True, **given)
    except Exception as error:  # not here, or of a kind that this transformers does not know
        logger.debug("no context of %s: %s", where, error)
        return None
    config = getattr(config, "text_config", None) or config
    return next((int(value) for name in _LENGTHS if (value := getattr(config, name, None)) is not None), None)
