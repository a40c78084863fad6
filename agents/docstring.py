"""What a function's docstring says of it, for the model: its summary, and a line for each parameter."""

import re
from typing import Final

_SECTION: Final = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENT: Final = re.compile(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description before the first section, and what an `Args:` section says of each parameter."""
    summary: list[str] = []
    arguments: dict[str, str] = {}
    section, current, indent = "", "", 0
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading:
            section, current = heading[1], ""
        elif not section:
            summary.append(line)
        elif section in {"Args", "Arguments", "Parameters"} and line.strip():
            depth = len(line) - len(line.lstrip())
            entry = _ARGUMENT.match(line.strip())
            if entry and (not current or depth <= indent):
                current, indent = entry[1], depth
                arguments[current] = entry[2]
            elif current:
                arguments[current] = f"{arguments[current]} {line.strip()}".strip()
    return "\n".join(summary).strip(), arguments
