"""The clusters of `correlate`: groups of columns, how stable they are, and their tree."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from lm_eval_healthcare.analysis.scores import Scores


def write_clusters(scores: Scores, args: argparse.Namespace) -> None:
    """Group the columns, write `clusters.json` and `clusters_<method>.svg` and `.png`, and say what came of it."""
    import numpy as np

    from lm_eval_healthcare.analysis.clusters import cluster
    from lm_eval_healthcare.analysis.directions import PERPLEXITIES
    from lm_eval_healthcare.whole_file import whole_file

    found = cluster(
        scores, args.method, rng=np.random.default_rng(args.seed), min_models=args.min_models,
        log_metrics=PERPLEXITIES if args.log else (),
    )  # fmt: skip
    stability = None if math.isnan(found.agreement) else found.agreement
    content = {
        "method": args.method,
        "distance": "1 - |r|",
        "groups": found.groups,
        "mean_adjusted_rand_over_resamples": stability,
        "left_out": [{"column": name, "reason": reason} for name, reason in found.left_out],
        "undefined_pairs": found.undefined_pairs,
    }
    with whole_file(args.output / "clusters.json") as part:
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"\n{len(found.groups)} clusters of {len(found.names)} columns", end="")
    print(
        ""
        if stability is None
        else f"; over resampled models they agree to {stability:.2f} (1: always the same, 0: chance)"
    )
    for number, group in enumerate(found.groups, start=1):
        print(f"  {number}: {', '.join(group)}")
    for name, reason in found.left_out:
        print(f"  left out: {name}: {reason}", file=sys.stderr)
    if args.no_figures or len(found.names) < 2:
        return
    from lm_eval_healthcare.report.dendrogram import dendrogram
    from lm_eval_healthcare.report.heatmap import ENDINGS, save

    figure = dendrogram(found, f"Clusters of benchmarks and metrics ({args.method})")
    for ending in ENDINGS:
        save(figure, args.output / f"clusters_{args.method}{ending}")
