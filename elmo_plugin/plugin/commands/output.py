"""What commands print."""

import sys


def print_text(text: str) -> None:
    """Prints text in which what the terminal's encoding lacks is escaped, as in `caf\\xe9`."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
