"""The F1-RadGraph of two annotated reports: sets in, one number out, no model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

LEVELS = ("partial", "simple", "complete")
"""Reward levels, the default first; `reward` says what each compares."""

Entities = Mapping[str, Mapping[str, Any]]
"""The entities of a report as the package `radgraph` gives them, by number: `tokens` (the words), `label` and
`relations`, a list of the relation's name and the other entity's number."""


def reward(prediction: Entities, reference: Entities, level: str = "partial") -> float:
    """Return the agreement of two annotated reports, 0 to 1, higher is better.

    Each report becomes a set of facts P or R; an entity said twice counts once. With p = |P & R| / |P| and
    r = |P & R| / |R| the reward is their harmonic mean 2 p r / (p + r). It is 0 where nothing is shared, and where
    either report has no entity, so also where neither has one. The facts of an entity are, by level:

    * `simple` (RG_E): its words and its label.
    * `partial` (RG_ER): the same, and whether a relation starts at it.
    * `complete` (bar RG_ER): for each relation that starts at it the words and the label, the relation's name and the
      words of the other entity; words and label if there is none.

    Source: Delbrouck et al. 2022 (https://aclanthology.org/2022.findings-emnlp.319), as in the package radgraph 0.1.18.

    Args:
        prediction: The entities of the prediction.
        reference: The entities of the reference.
        level: One of `LEVELS`.

    Raises:
        ValueError: If the level is not one of them.
    """
    if level not in LEVELS:
        raise ValueError(f"radgraph_reward={level}: expected one of {', '.join(LEVELS)}")
    predicted, wanted = facts(prediction, level), facts(reference, level)
    shared = len(predicted & wanted)
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def facts(entities: Entities, level: str) -> set[Hashable]:
    """Return what a level compares of a report's entities."""
    found: set[Hashable] = set()
    for entity in entities.values():
        tokens, label, relations = entity["tokens"], entity["label"], entity["relations"]
        if level == "simple" or not relations:
            found.add((tokens, label))
        elif level == "partial":
            found.add((tokens, label, True))
        else:
            # The original lowers words only here; with reports in lower case, as this package gives, it is the same.
            others = ((name, entities[other]["tokens"].lower()) for name, other in relations)
            found.update((tokens.lower(), label, name, other) for name, other in others)
    return found
