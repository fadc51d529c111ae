"""Healthcare tasks, metrics and analyses for EleutherAI's lm-evaluation-harness.

Importing this package is cheap: nothing heavier than the standard library is loaded until it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lm_eval.tasks import TaskManager

__all__ = ["__version__", "task_manager", "tasks_path"]
__version__ = "0.1.0"


def tasks_path() -> Path:
    """Return the folder that holds the pack's task YAMLs, for the harness's `--include_path`.

    Returns:
        The folder inside the installed wheel, or the clone's `tasks/` in an editable install.

    Raises:
        UserError: If neither exists, that is, if the installation is incomplete.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "_tasks", package.parent / "tasks"):
        if folder.is_dir():
            return folder
    from lm_eval_healthcare.errors import UserError

    raise UserError(
        f"the task YAMLs of lm_eval_healthcare are in neither {package / '_tasks'} nor {package.parent / 'tasks'}. "
        "Install the pack again: pip install --force-reinstall lm-eval-healthcare"
    )


def task_manager(
    include_path: str | Path | Sequence[str | Path] | None = None,
    metadata: Mapping[str, Any] | None = None,
    include_defaults: bool = True,
) -> TaskManager:
    """Return a harness `TaskManager` that knows the pack's tasks.

    Example:
        >>> import lm_eval, lm_eval_healthcare
        >>> manager = lm_eval_healthcare.task_manager(metadata={"data": "sample"})
        >>> lm_eval.simple_evaluate(model="dummy", tasks=["careqa_open"], task_manager=manager)  # doctest: +SKIP

    Args:
        include_path: The user's own task folder or folders. Their tasks win over the pack's.
        metadata: The pack's run-time options (`data`, `prompt`, `metrics`, ...) and whatever other tasks need; the
            same that `--metadata` takes.
        include_defaults: Whether the harness's own tasks are indexed too, which takes several seconds.
    """
    from lm_eval_healthcare.harness.manager import build_task_manager

    return build_task_manager(include_path=include_path, metadata=metadata, include_defaults=include_defaults)
