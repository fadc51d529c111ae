"""One rank of a data-parallel run on the CPU (gloo); started by test_real_relaxed.py, see two_ranks.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed
from accelerate import Accelerator
from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.huggingface import HFLM

from lm_eval_healthcare import task_manager

model, out, engine = sys.argv[1:4]
accelerator = Accelerator(cpu=True)
lm = HFLM(pretrained=model, dtype="float32", device="cpu", batch_size=2)
lm.accelerator, lm._rank, lm._world_size = accelerator, accelerator.process_index, accelerator.num_processes
name = "olaph_relaxed_perplexity"
options = {
    "data": "sample", "answers": "off", "relaxed_samples": 2, "relaxed_keep": 2, "relaxed_length": 6,
    "relaxed_stride": 3, "relaxed_engine": engine, "relaxed_readings": "all",
}  # fmt: skip
results = simple_evaluate(
    model=lm, tasks=[name], limit=3, task_manager=task_manager(metadata=options, include_defaults=False)
)
if results is not None:
    section = results["configs"][name]["metadata"]["healthcare"]
    kept = {key: section[key] for key in ("reasons", "relaxed_perplexity", "breakdown")}
    folder = Path(out, f"{engine}_{lm.world_size}")
    EvaluationTracker(output_path=str(folder)).save_results_aggregated(dict(results), None)
    (folder / "kept.json").write_text(json.dumps({"results": results["results"], "section": kept}), encoding="utf-8")
if torch.distributed.is_initialized():
    torch.distributed.barrier()  # a rank that leaves while another still works may take it along
    torch.distributed.destroy_process_group()
