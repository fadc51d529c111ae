"""PubTator: the text format in which the authors of BioRED give their corpus.

A document is a block of lines, `PMID|t|title` and `PMID|a|abstract`, then one line a mention
(PMID, start, end, text, type, identifiers) and one line a relation (PMID, type, identifier, identifier, novelty), with
tabs between the fields; a blank line ends it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import DataError, read_utf8

if TYPE_CHECKING:
    from pathlib import Path

_TEXT = re.compile(r"^(?P<pmid>[^|\t]+)\|(?P<part>[ta])\|(?P<text>.*)$")
_REPORTED = 10


def read_pubtator(path: Path) -> list[dict[str, Any]]:
    """Read a PubTator file into documents as `parse_pubtator` gives them.

    Raises:
        DataError: If the file cannot be read or lines are malformed; every such line is named, up to ten.
    """
    documents, problems = parse_pubtator(read_utf8(path))
    if problems:
        shown = "\n".join(f"{path}, {problem}" for problem in problems[:_REPORTED])
        more = f"\n... and {len(problems) - _REPORTED} more" if len(problems) > _REPORTED else ""
        raise DataError(shown + more)
    return documents


def parse_pubtator(text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Parse PubTator text.

    Returns:
        Documents (`pmid`, `passages`, `entities`, `relations`, as in the source layout of BigBIO), and one message for
        each line that is not of the format.
    """
    documents: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if not line.strip():
            continue
        problem = _add_line(line, documents)
        if problem:
            problems.append(f"line {number}: {problem}")
    return list(documents.values()), problems


def _add_line(line: str, documents: dict[str, dict[str, Any]]) -> str:
    match = _TEXT.match(line)
    if match:
        pmid = match["pmid"].strip()
        block = documents.setdefault(pmid, {"pmid": pmid, "passages": [], "entities": [], "relations": []})
        kind = "title" if match["part"] == "t" else "abstract"
        if any(passage["type"] == kind for passage in block["passages"]):
            return f"a second {kind} of document {pmid}"
        block["passages"].append({"type": kind, "text": [match["text"].strip()]})
        return ""
    fields = [field.strip() for field in line.split("\t")]
    document = documents.get(fields[0])
    if document is None:
        return f"expected '{fields[0][:20]}|t|TITLE' before it, or tabs between fields; got {_show(line)}"
    if len(fields) >= 5 and fields[1].isdigit() and fields[2].isdigit():
        if not fields[3] or not fields[4]:
            return f"a mention without a text or a type: {_show(line)}"
        document["entities"].append(
            {
                "text": [fields[3]],
                "offsets": [[int(fields[1]), int(fields[2])]],
                "concept_id": fields[5] if len(fields) > 5 else "",
                "semantic_type_id": fields[4],
            }
        )
        return ""
    if len(fields) in (4, 5) and not fields[1].isdigit() and all(fields[1:4]):
        document["relations"].append(
            {
                "type": fields[1],
                "concept_1": fields[2],
                "concept_2": fields[3],
                "novel": fields[4] if len(fields) > 4 else "",
            }
        )
        return ""
    return f"neither a mention (six fields) nor a relation (five fields): {_show(line)}"


def _show(line: str) -> str:
    return repr(line if len(line) <= 60 else line[:57] + "...")
