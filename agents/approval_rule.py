"""Rules that say which calls of a tool a person must approve: a small expression over the tool and its arguments.

    amount > 100 and currency != "EUR"
    tool in ["pay", "refund"] or startswith(path, "/etc/")

A rule that comes out true asks. So does one that cannot be evaluated (an argument that was not given, a comparison of
a text with a number, a value that is neither true nor false), since a rule that fails must not let a call pass.

A rule is read by Python's parser and evaluated by this module: never compiled, never run. It has no loops and a
bounded size, so its time is bounded by the size of the arguments. `tool` is the tool's name, and every argument is a
name, as plain JSON values; `place.city` and `place["city"]` are the same.
"""

import ast
import difflib
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from agents.errors import InvalidLimits

MOST_TEXT: Final = 1_000
"""Characters of a rule."""
MOST_NODES: Final = 250
"""Parts of a rule."""
MOST_DEPTH: Final = 32

TOOL: Final = "tool"
_WORDS: Final = ("never", "always")

_COMPARE: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], object]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, holder: item in holder,
    ast.NotIn: lambda item, holder: item not in holder,
}
_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Any, Any], object]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: Final[Mapping[str, tuple[int, Callable[..., object]]]] = {
    "len": (1, len),
    "lower": (1, str.lower),
    "startswith": (2, str.startswith),
    "endswith": (2, str.endswith),
}
_SHAPES: Final = (ast.BoolOp, ast.And, ast.Or, ast.Not, ast.USub, ast.List, ast.Tuple, ast.Load)
_GRAMMAR: Final = (
    "a rule is made of the tool's arguments, `tool`, texts, numbers, comparisons, and, or, not, in, + - * /, [lists] "
    f"and {', '.join(f'{name}()' for name in _FUNCTIONS)}"
)


class ApprovalRule:
    """One rule, checked. Raises `InvalidLimits` with the field `approval` for what is no rule."""

    __slots__ = ("_tree", "names", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree = _parse(text)
        called = {node.func for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        self.names = frozenset(
            node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node not in called
        )
        """The names the rule looks at; all but `tool` are arguments."""

    def asks(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether a call with these decoded arguments needs a person's word. Never raises."""
        try:
            plain = msgspec.to_builtins(dict(arguments), str_keys=True)
            return _truth(self._tree, {**plain, TOOL: tool})
        except Exception:
            return True

    def __repr__(self) -> str:
        return f"<ApprovalRule {self.text}>"


Approval: TypeAlias = Literal["never", "always"] | ApprovalRule


def read_approval(text: str) -> Approval:
    """`never`, `always` or a rule. Raises `InvalidLimits` with the field `approval`."""
    if text in _WORDS:
        return cast(Literal["never", "always"], text)
    near = difflib.get_close_matches(text.strip().lower(), _WORDS, n=1, cutoff=0.75)
    if near:
        raise _invalid(f'{text!r} is neither "never", nor "always", nor a rule; did you mean {near[0]!r}?')
    return ApprovalRule(text)


def _parse(text: str) -> ast.expr:
    if not text.strip() or len(text) > MOST_TEXT:
        raise _invalid(f'"never", "always" or a rule of at most {MOST_TEXT} characters')
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise _invalid(f"{text!r} is neither never, nor always, nor a rule: {reason}") from None
    _check(tree)
    return tree


def _check(tree: ast.expr) -> None:
    """Level by level, so that the deepest nesting is refused and not followed."""
    level: list[ast.AST] = [tree]
    count, depth = 0, 0
    while level:
        count, depth = count + len(level), depth + 1
        if count > MOST_NODES or depth > MOST_DEPTH:
            raise _invalid(f"a rule has at most {MOST_NODES} parts, nested at most {MOST_DEPTH} deep")
        for node in level:
            if not _allowed(node):
                shown = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
                raise _invalid(f"{shown[:60]!r} has no place in a rule: {_GRAMMAR}")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _allowed(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value):
            return value is None or type(value) in (str, int, float, bool)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return name in _FUNCTIONS and len(args) == _FUNCTIONS[name][0]
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return not name.startswith("__")
        case ast.Compare() | ast.BinOp() | ast.Subscript():
            return True
        case ast.UnaryOp(op=op):
            return isinstance(op, ast.Not | ast.USub)
    return isinstance(node, _SHAPES) or type(node) in _COMPARE or type(node) in _ARITHMETIC


def _truth(node: ast.expr, names: Mapping[str, Any]) -> bool:
    value = _value(node, names)
    if value is not True and value is not False:
        raise TypeError("a value that is neither true nor false")
    return value


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(value=inner, attr=name):
            return _part(_value(inner, names), name)
        case ast.Subscript(value=inner, slice=key):
            return _part(_value(inner, names), _value(key, names))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, names) for item in items]
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name][1](*(_value(argument, names) for argument in args))
    return _reckoned(node, names)


def _reckoned(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_truth(value, names) for value in values)
        case ast.BoolOp(values=values):
            return any(_truth(value, names) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(operand, names)
        case ast.UnaryOp(operand=operand):
            return -_number(_value(operand, names))
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_number(_value(left, names)), _number(_value(right, names)))
        case ast.Compare():
            return _compared(node, names)
    raise TypeError(f"{type(node).__name__} has no value")


def _compared(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for op, follower in zip(node.ops, node.comparators, strict=True):
        right = _value(follower, names)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True


def _part(holder: object, key: object) -> object:
    if isinstance(holder, dict):
        return holder[key]
    if isinstance(holder, list) and type(key) is int:
        return holder[key]
    raise TypeError("only objects and lists have parts")


def _number(value: object) -> Any:
    """Only numbers are reckoned with: a text times a number could be of any size."""
    if type(value) not in (int, float):
        raise TypeError("only numbers can be reckoned with")
    return value


def _invalid(what: str) -> InvalidLimits:
    return InvalidLimits("approval", what)
