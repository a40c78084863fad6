"""Just enough of PromQL to take conditions apart: what is compared, without what it is compared to."""

import re
from collections.abc import Iterator

_MATCHING = r"(?:\s*(?:on|ignoring)\s*\([^)]*\))?(?:\s*group_(?:left|right)\s*(?:\([^)]*\))?)?"
_CUT = re.compile(rf"(?:\b(?:and|or|unless)\b|==|!=|>=|<=|>|<)(?:\s*bool\b)?{_MATCHING}")
_OPENS, _CLOSES = "([{", ")]}"


def operands(expr: str) -> list[str]:
    """What stands between the comparisons and set operators of an expression, numbers left out.

    >>> operands('a{b!="c"} > 1 unless on (d) (sum(e) < 3 * f)')
    ['a{b!="c"}', 'sum(e)', '3 * f']
    """
    parts = [part.strip() for part in _split(expr)]
    if len(parts) == 1:
        inner = _without_parentheses(parts[0])
        return [parts[0]] if inner is None else operands(inner)
    return [operand for part in parts if not _is_number(part) for operand in operands(part)]


def _split(expr: str) -> Iterator[str]:
    depth = place = begin = 0
    quoted = False
    while place < len(expr):
        char = expr[place]
        if char == '"':
            quoted = not quoted
        elif not quoted and char in _OPENS:
            depth += 1
        elif not quoted and char in _CLOSES:
            depth -= 1
        elif not quoted and depth == 0 and (cut := _CUT.match(expr, place)) and not _in_a_word(expr, place):
            yield expr[begin:place]
            place = begin = cut.end()
            continue
        place += 1
    yield expr[begin:]


def _in_a_word(expr: str, place: int) -> bool:
    return place > 0 and (expr[place - 1].isalnum() or expr[place - 1] in "_:") and expr[place].isalpha()


def _without_parentheses(part: str) -> str | None:
    """The inside of an expression in parentheses; None if they are not around all of it."""
    if not part.startswith("("):
        return None
    depth = 0
    for place, char in enumerate(part):
        depth += (char in _OPENS) - (char in _CLOSES)
        if depth == 0:
            return part[1:-1] if place == len(part) - 1 else None
    return None


def _is_number(part: str) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True
