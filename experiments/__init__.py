"""
The commands behind the numbers in the documentation. `python -m experiments.NAME` prints a table as
Markdown; `--help` describes its arguments.
"""

import argparse
import sys
from collections.abc import Callable


def run(name: str, main: Callable[[], None]) -> None:
    """Run a command; an error in an argument or a file ends it with one line."""
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"python -m experiments.{name}: {' '.join(str(error).split())}")


def new_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help has the line breaks of the description."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
