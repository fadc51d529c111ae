"""One rank of a data-parallel run on the CPU (gloo); started by test_real_perplexity.py, see two_ranks.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed
from accelerate import Accelerator
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM

from lm_eval_healthcare import task_manager

model, out = sys.argv[1:3]
accelerator = Accelerator(cpu=True)
lm = HFLM(pretrained=model, dtype="float32", device="cpu", batch_size=2)
lm.accelerator, lm._rank, lm._world_size = accelerator, accelerator.process_index, accelerator.num_processes
names = ["medtext_perplexity", "medtext_conditional_perplexity"]
results = simple_evaluate(
    model=lm, tasks=names, limit=5,
    task_manager=task_manager(metadata={"data": "sample", "answers": "off"}, include_defaults=False),
)  # fmt: skip
if results is not None:
    sections = {name: results["configs"][name]["metadata"]["healthcare"] for name in names}
    kept = {name: {key: section[key] for key in ("reasons", "perplexity")} for name, section in sections.items()}
    Path(out, f"results_{lm.world_size}.json").write_text(
        json.dumps({"results": results["results"], "sections": kept}), encoding="utf-8"
    )
if torch.distributed.is_initialized():
    torch.distributed.barrier()  # a rank that leaves while another still works may take it along
    torch.distributed.destroy_process_group()
