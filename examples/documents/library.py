"""The tools of a library: one lends a document and says which licences it names, one adds up what was lent."""

import json
import re
from collections import Counter
from pathlib import Path

from agents.context import ToolContext

LOANS = Path(__file__).with_name("loans.jsonl")
"""Where each loan is written down, wherever that is done: what was done twice is there twice."""

MOST_NAMES = 3
NAME = re.compile(r"\b(?:[AL]?GPL-[123](?:\.\d)?|Apache-2\.0|Artistic|BSD(?:-[234]-clause)?|Expat|MIT|MPL-[12]\.\d)\b")


def borrow(document: str, context: ToolContext) -> str:
    """Lends a document, and tells which licences it names, the most frequent first.

    Args:
        document: its path.
    """
    text = Path(document).read_text(encoding="utf-8", errors="replace")
    names = [name for name, _ in Counter(NAME.findall(text)).most_common(MOST_NAMES)]
    loan = {"call": context.key, "document": document, "licence": names[0] if names else "none"}
    with LOANS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(loan) + "\n")
    return ", ".join(names) or "none"


def count_loans() -> str:
    """Counts the documents that were lent, by the licence that each names most."""
    lines = LOANS.read_text(encoding="utf-8").splitlines() if LOANS.exists() else []
    licences = {loan["document"]: loan["licence"] for loan in map(json.loads, lines)}
    most = Counter(licences.values()).most_common(3)
    return f"{len(licences)} documents: " + ", ".join(f"{count} {licence}" for licence, count in most)
