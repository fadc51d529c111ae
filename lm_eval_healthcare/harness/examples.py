"""Few-shot examples: loaded only when a run asks for some, and never rows that are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval.api.task import ConfigurableTask

from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.rows import usable_examples

if TYPE_CHECKING:
    from lm_eval_healthcare.data.catalogue import TaskFacts
    from lm_eval_healthcare.data.source import TaskData


class TaskWithExamples(ConfigurableTask):
    """A task of the harness that takes its few-shot examples from rows beside the scored ones."""

    facts: TaskFacts
    _data: TaskData | None = None
    _examples: list[dict[str, Any]] | None = None

    def fewshot_docs(self) -> list[dict[str, Any]]:
        """Return no examples: they are loaded when a run asks for some, see `prepare_fewshot`."""
        return []

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, *args: Any, **kwargs: Any) -> Any:
        """Build the prompt as the harness does, with examples that are never scored."""
        if num_fewshot:
            self.prepare_fewshot(num_fewshot)
        return super().fewshot_context(doc, num_fewshot, *args, **kwargs)

    def prepare_fewshot(self, needed: int) -> None:
        """Load the examples.

        Raises:
            OptionError: If there is no split to take them from, or it holds fewer than needed.
        """
        assert self._data is not None
        split, scored_split = self._data.fewshot_split, self._data.eval_split
        if split is None:
            raise OptionError(
                f"{self.task_name}: num_fewshot={needed}, but there is no split beside the scored one "
                f"('{scored_split}') to take examples from, and examples must never be rows that are scored. Use "
                f"num_fewshot=0, a data folder with {self.facts.folder_name}/train.jsonl, or fewshot_holdout=N to hold "
                "N rows out of the scored ones."
            )
        if self._examples is None:
            split_rows, scored_rows = self.dataset[split], self.dataset[scored_split]
            self._examples = usable_examples(split_rows, scored_rows, self.facts, self.doc_to_text)
            self.sampler.replace_df(self._examples)
        if len(self._examples) < needed:
            raise OptionError(
                f"{self.task_name}: num_fewshot={needed}, but split '{split}' holds only {len(self._examples)} "
                "examples that can be used; ask for that many at most, or add rows to that split in a data folder"
            )
