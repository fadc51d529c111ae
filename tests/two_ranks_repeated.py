"""One rank of a data-parallel run on the CPU (gloo); started by test_real_repeated.py, see two_ranks.py."""

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
name = "careqa_open_consistency"
options = {
    "data": str(Path(out, "rows")), "answers": "off", "repeats": 3, "repeats_cache": "off", "metrics": "ngram"
}  # fmt: skip
results = simple_evaluate(
    model=lm, tasks=[name], task_manager=task_manager(metadata=options, include_defaults=False),
    gen_kwargs={"max_gen_toks": 6}, bootstrap_iters=0,
)  # fmt: skip
if results is not None:
    rows = sorted(results["samples"][name], key=lambda row: row["doc_id"])
    section = results["configs"][name]["metadata"]["healthcare"]
    kept = {
        "rows": [(row["resps"], row["filtered_resps"], row["rouge1_per_answer"]) for row in rows],
        "results": {key: value for key, value in results["results"][name].items() if "stderr" not in key},
        "repeated": section["repeated"],
        "reasons": section["reasons"],
    }
    Path(out, "kept.json").write_text(json.dumps(kept), encoding="utf-8")
if torch.distributed.is_initialized():
    torch.distributed.barrier()  # a rank that leaves while another still works may take it along
    torch.distributed.destroy_process_group()
