"""MTS-Dialog: one section of a clinical note from a short conversation.

There are two sets of rows. The official test sets, test1 and test2, have the note's section as it was written. The
hub's copy, which the harness scores, holds the training and validation rows with every section rewritten into four
blocks (symptoms, diagnosis, history, plan).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCORED, EXAMPLES = "test", "train"
OFFICIAL = ("test1", "test2")
HARNESS = "harness"
OWN = "own"  # rows of a plain `test` file, of which nothing is known

SECTIONS = {
    "ALLERGY": "allergies",
    "ASSESSMENT": "assessment",
    "CC": "chief complaint",
    "DIAGNOSIS": "diagnosis",
    "DISPOSITION": "disposition",
    "EDCOURSE": "emergency department course",
    "EXAM": "physical examination",
    "FAM/SOCHX": "family and social history",
    "GENHX": "history of present illness",
    "GYNHX": "gynecologic history",
    "IMAGING": "imaging",
    "IMMUNIZATIONS": "immunizations",
    "LABS": "laboratory results",
    "MEDICATIONS": "medications",
    "OTHER_HISTORY": "other history",
    "PASTMEDICALHX": "past medical history",
    "PASTSURGICAL": "past surgical history",
    "PLAN": "plan",
    "PROCEDURES": "procedures",
    "ROS": "review of systems",
}
_ALIASES = {"ALLERGIES": "ALLERGY", "PASTSURGICALHX": "PASTSURGICAL", "OTHERHISTORY": "OTHER_HISTORY"}


def documents(splits: Mapping[str, Sequence[dict[str, Any]]], options: Mapping[str, str]) -> Prepared:
    """Choose the rows that are scored, and name the section if asked to.

    Args:
        splits: Rows by raw split: `test1`, `test2`, `train` and `validation` of the original, `harness` for the hub's
            rows, `test` for rows of one's own.
        options: `subset`: `auto` (the official test sets where there are any, else what there is), `official`,
            `test1`, `test2` or `harness`. `section`: `named` puts the section's name into the prompt, `hidden` does
            not.

    Returns:
        Documents with `dialogue`, `section_text`, `subset`, `header` (normalised), `section_prompt` (the text that
        names the section, blank if hidden), and for official rows `section_header`, by which their scores are broken
        down. Examples come from the original training rows, and only beside rows that are not made of them.

    Raises:
        DataError: If the rows that `subset` names are not there.
    """
    chosen = _choose(splits, options.get("subset", "auto"))
    named = options.get("section", "hidden") == "named"
    scored = [_document(row, subset, named) for subset, split in chosen for row in splits[split]]
    prepared = Prepared({SCORED: scored})
    subsets = [subset for subset, _ in chosen]
    # The harness's rows are the training and validation rows with other references: no examples from those.
    if HARNESS not in subsets:
        for split in (EXAMPLES, "validation"):
            if split in splits:
                prepared.splits[split] = [_document(row, split, named) for row in splits[split]]
    if options.get("subset", "auto") in ("auto", "official") and len({*subsets} & {*OFFICIAL}) == 1:
        prepared.warnings.append(f"only one of the two official test sets is there; {subsets[0]} alone is scored")
    unnamed = sum(not document["header"] for document in scored)
    if named and unnamed:
        prepared.warnings.append(f"{unnamed} of {len(scored)} rows have no section header, so none is named for them")
    return prepared


def section_name(header: str) -> str:
    """Spell out a section's header; one that is not of the corpus is given back in lower case."""
    return SECTIONS.get(_normal(header), header.strip().lower().replace("_", " "))


def _normal(header: str) -> str:
    upper = header.strip().upper()
    return _ALIASES.get(upper, upper)


def _choose(splits: Mapping[str, Any], subset: str) -> list[tuple[str, str]]:
    """Return the subsets that are scored, each with the raw split that holds it."""
    official = [(name, name) for name in OFFICIAL if name in splits]
    candidates = {
        "official": official,
        **{name: [(name, name)] if name in splits else [] for name in (*OFFICIAL, HARNESS)},
    }
    if subset == "auto":
        own = [(OWN, SCORED)] if SCORED in splits else []
        found = official or own or candidates[HARNESS]
    else:
        found = candidates[subset]
    if not found:
        there = ", ".join(splits) or "none"
        raise DataError(
            f"mts_dialog: subset={subset} needs rows that are not there (found the splits {there}). The official test "
            "sets are read from a folder that holds mts_dialog/test1.csv and mts_dialog/test2.csv (the files of "
            "abachaa/MTS-Dialog, renamed; train.csv beside them for examples); the harness's rows come from data=hub, "
            "or from mts_dialog/harness.jsonl in a folder, which "
            "`lm-eval-healthcare data fetch mts_dialog` writes"
        )
    return found


def _document(row: Mapping[str, Any], subset: str, named: bool) -> dict[str, Any]:
    header = _normal(row["section_header"])
    document = {
        "dialogue": row["dialogue"],
        "section_text": row["section_text"],
        "subset": subset,
        "header": header,
        "section_prompt": f"Section of the note: {section_name(header)}\n" if named and header else "",
    }
    return {**document, "section_header": header} if subset in OFFICIAL else document
