"""Reading a sample file of the harness row by row, in every shape that it has had.

Today a row is a line of JSON for one document and one filter. Before 0.4.3 the file was one JSON array, and before
0.4.6 rows did not say which filter they belong to. Only a line feed ends a line: texts hold U+2028 and its like.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.results.names import printable
from lm_eval_healthcare.results.results_file import TEXT_OUTPUT, ResultsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIXED_KEYS = (
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
    "target_hash",
)  # fmt: skip
"""What a row holds besides the values of metrics."""
HIDDEN_ROW = "hidden_row"
"""The key by which the document of a row is known as a placeholder for one that must not be logged."""


class SampleFile:
    """The rows of one sample file, read anew by every iteration.

    Attributes:
        path: The file.
        cut: What is wrong with the last line, which is then left out, or None; known once all rows have been read.
    """

    def __init__(self, path: Path) -> None:
        """Take the file at `path`, which is opened only when its rows are asked for."""
        self.path = path
        self.cut: str | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows.

        Raises:
            ResultsError: If the file cannot be read, is empty, or holds anything but rows before its last line.
        """
        self.cut = None
        try:
            with self.path.open("rb") as stream:
                begin = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
                stream.seek(0)
                yield from self._array(stream.read()) if begin.startswith(b"[") else self._lines(stream)
        except OSError as error:
            raise ResultsError(f"{printable(self.path)}: cannot be read: {error}") from error

    def _lines(self, lines: Any) -> Iterator[dict[str, Any]]:
        faulty: tuple[int, str] | None = None
        rows = 0
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            if faulty is not None:
                raise ResultsError(
                    f"{printable(self.path)}, line {faulty[0]}: {faulty[1]}; the file is left out. "
                    "Only a cut last line can be skipped: mend or delete this one"
                )
            try:
                yield _row(json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8")))
                rows += 1
            except (ValueError, RecursionError) as error:
                faulty = number, f"not a row of JSON ({error})"
        if faulty is not None:
            self.cut = f"{printable(self.path)}: line {faulty[0]}, the last one, is cut and was skipped"
        if not rows:
            raise ResultsError(
                f"{printable(self.path)}: {'no whole row' if faulty else 'the file is empty'}; it is left out"
            )

    def _array(self, content: bytes) -> Iterator[dict[str, Any]]:
        try:
            rows = [_row(row) for row in json.loads(content.decode("utf-8-sig"))]
        except (ValueError, RecursionError, TypeError) as error:
            raise ResultsError(
                f"{printable(self.path)}: not a JSON array of rows ({error}); the file is left out"
            ) from error
        if not rows:
            raise ResultsError(f"{printable(self.path)}: the file holds no rows; it is left out")
        yield from rows


def _row(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"expected an object, got {type(content).__name__}")
    if "filtered_resps" not in content and "resps" not in content:
        raise ValueError("no sample of the harness: neither filtered_resps nor resps")
    return content


def arguments(row: Mapping[str, Any]) -> list[list[Any]]:
    """Return what the model was given for each request of a row, from the old and the new shape."""
    given = row.get("arguments")
    if isinstance(given, dict):
        given = list(given.values())
    if not isinstance(given, list):
        return []
    return [list(one.values()) if isinstance(one, dict) else one for one in given if isinstance(one, dict | list)]


def is_text(row: Mapping[str, Any], output_type: str | None) -> bool:
    """Say whether the answer in a row is a text that the model wrote, not log-likelihoods.

    Args:
        row: A row of a sample file.
        output_type: The task's, if it is known; otherwise the row's arguments tell.
    """
    if output_type:
        return output_type == TEXT_OUTPUT
    requests = arguments(row)
    if requests and requests[0]:
        return len(requests[0]) > 1 and isinstance(requests[0][1], dict)
    answer = _first(row.get("filtered_resps"))
    return not (isinstance(answer, list) and len(answer) == 2 and answer[1] in ("True", "False", True, False))


def prediction(row: Mapping[str, Any]) -> str | None:
    """Return the text that the run scored: the first answer after the row's filter, or None if there is none.

    The harness writes None as a text; a row that the pack scored says that its answer was empty.
    """
    answer = _first(row["filtered_resps"] if "filtered_resps" in row else row.get("resps"))
    if isinstance(answer, list):
        answer = _first(answer)
    if answer == "None" and row.get("empty_prediction") == 1:
        return None
    return answer if isinstance(answer, str) else None


def kept_answers(row: Mapping[str, Any]) -> list[str | None]:
    """Return the answers that the row's filter kept: all of several, else the prediction alone."""
    kept = _first(row.get("filtered_resps"))
    if not isinstance(kept, list) or len(kept) < 2:
        return [prediction(row)]
    silent = row.get("empty_prediction") == 1
    return [text if isinstance(text, str) and not (silent and text == "None") else None for text in kept]


def first_of(row: Mapping[str, Any]) -> int:
    """Return how many answers there are of which the prediction is the first; 1 where a filter made one of them all."""
    filtered, given = _first(row.get("filtered_resps")), _first(row.get("resps"))
    if isinstance(filtered, list):
        return max(1, len(filtered))
    return len(given) if isinstance(given, list) and len(given) > 1 and filtered in (given[0], None) else 1


def document_hash(row: Mapping[str, Any]) -> str:
    """Return a row's hash of its document, computed as the harness does if the row is too old to have one."""
    given = row.get("doc_hash")
    return given if isinstance(given, str) and given else _sha256(_dumped(row.get("doc")))


def completed(row: Mapping[str, Any], filter_name: str) -> dict[str, Any]:
    """Return the fixed part of a row as the harness writes it today, without the values of metrics."""
    requests = arguments(row)
    prompt = requests[0][0] if requests and requests[0] else ""
    target = row.get("target")
    new = {
        **row,
        "target": target if target is None or isinstance(target, str) else str(target),
        "arguments": {f"gen_args_{n}": {f"arg_{m}": a for m, a in enumerate(one)} for n, one in enumerate(requests)},
        "filter": filter_name,
        "doc_hash": document_hash(row),
        "prompt_hash": row.get("prompt_hash") or _sha256(str(prompt)),
        "target_hash": row.get("target_hash") or _sha256(str(target)),
    }
    return {key: new.get(key) for key in FIXED_KEYS}


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _dumped(doc: Any) -> str:
    return json.dumps(doc, indent=2, ensure_ascii=False, default=str)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
