"""Relaxed Perplexity: how likely a model finds a text anywhere in its answer, not only at its beginning.

Source: "Automatic Evaluation of Healthcare LLMs Beyond Question-Answering", arXiv 2502.06666.
"""

from lm_eval_healthcare.relaxed_perplexity.estimator import reduce
from lm_eval_healthcare.relaxed_perplexity.matrix import Matrix, Target
from lm_eval_healthcare.relaxed_perplexity.measure import measure
from lm_eval_healthcare.relaxed_perplexity.prefixes import Prefix, Sample, choose
from lm_eval_healthcare.relaxed_perplexity.settings import Settings

__all__ = ["Matrix", "Prefix", "Sample", "Settings", "Target", "choose", "measure", "reduce"]
