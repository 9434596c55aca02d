"""The addresses of the text of a task, which `data/task_text.py` reads."""

TASK = "task"
TASK_WITH_REPEATS = "task-with-repeats"


def with_repeats(path: str) -> str:
    """
    The address of a task's text with a line for each text field, also if the field repeats an
    earlier one. Any other path stays as it is.
    """
    start = f"{TASK}://"
    return f"{TASK_WITH_REPEATS}://{path.removeprefix(start)}" if path.startswith(start) else path
