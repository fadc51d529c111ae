"""A language model as a judge: it grades answers from 1 to 5, or prefers one of two.

Only verdicts that the judge gave are scores; whatever else comes back is kept, counted, and no score.
"""

from lm_eval_healthcare.judge.parse import Choice, Verdict, parse_choice, parse_verdict
from lm_eval_healthcare.judge.reasons import Reason

__all__ = ["Choice", "Reason", "Verdict", "parse_choice", "parse_verdict"]
