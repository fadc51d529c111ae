"""One rank of a data-parallel run on the CPU (gloo); started by test_real_model.py with `torch.distributed.run`.

The harness's transformers back end takes its rank from accelerate only where there are several GPUs, so it is set here;
everything else (splitting documents, gathering scores) is the harness's own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed
from accelerate import Accelerator
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM

from lm_eval_healthcare import task_manager

model, encoder, out = sys.argv[1:4]
accelerator = Accelerator(cpu=True)
lm = HFLM(pretrained=model, dtype="float32", device="cpu", batch_size=4)
lm.accelerator, lm._rank, lm._world_size = accelerator, accelerator.process_index, accelerator.num_processes
metadata = {
    "data": "sample", "metrics": "bleu+rouge1+bert_score+mover_score", "answers": f"{out}/answers",
    "bert_score_model": encoder, "mover_score_model": encoder,
}  # fmt: skip
results = simple_evaluate(
    model=lm, tasks=["careqa_en", "careqa_open"], limit=5, gen_kwargs={"max_gen_toks": 8},
    task_manager=task_manager(metadata=metadata, include_defaults=False),
)  # fmt: skip
if results is not None:
    Path(out, f"results_{lm.world_size}.json").write_text(json.dumps(results["results"]), encoding="utf-8")
if torch.distributed.is_initialized():
    torch.distributed.barrier()  # a rank that leaves while another still works may take it along
    torch.distributed.destroy_process_group()
