"""Request bodies and queries, read within bounds and decoded strictly.

What is wrong is named by its path (`who.agent`), and a field that does not exist is told with the nearest that does.
The content type is not looked at: a body is JSON or it is not.
"""

import difflib
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, TypeVar

import msgspec
import trio
from msgspec import inspect as shapes
from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive

from orchestrator.api.errors import BadRequest, BodyTooLarge, SlowBody
from orchestrator.api.leaving import ClientLeft
from orchestrator.json_numbers import BITS, beyond, too_large

T = TypeVar("T")

_WHERE: Final = re.compile(r"(?s)(?P<problem>.*) - at `(?:key in )?\$\.?(?P<path>.*?)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>.*)`")
_STEP: Final = re.compile(r"[^.\[\]]+|\[[^\]]*\]")


def check_length(headers: Headers, bound: int) -> None:
    """Raises `BodyTooLarge` if the head announces a body of more than `bound` bytes."""
    length = headers.get("content-length", "").lstrip("0")
    # not every number of digits is one that may be turned into a number
    if length.isdecimal() and (len(length) > len(str(bound)) or int(length) > bound):
        raise BodyTooLarge(f"the body has {length[:20]} bytes, more than the {bound} allowed (http.body_bytes)")


async def read_body(receive: Receive, *, bound: int, seconds: float) -> bytes:
    """The whole body. Raises `BodyTooLarge`, `SlowBody`, `ClientLeft`."""
    body = bytearray()
    with trio.move_on_after(seconds) as scope:
        async with aclosing(body_chunks(receive)) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > bound:
                    raise BodyTooLarge(f"the body has more than the {bound} bytes allowed (http.body_bytes)")
    if scope.cancelled_caught:
        raise SlowBody(f"the body was not whole within {seconds:g} s")
    return bytes(body)


async def body_chunks(receive: Receive, *, seconds: float = float("inf")) -> AsyncGenerator[bytes, None]:
    """The body as it comes. Raises `SlowBody` after a pause of `seconds`, `ClientLeft`."""
    more = True
    while more:
        with trio.move_on_after(seconds) as scope:
            message = await receive()
        if scope.cancelled_caught:
            raise SlowBody(f"nothing of the body came for {seconds:g} s")
        if message["type"] == "http.disconnect":
            raise ClientLeft
        more = message.get("more_body", False)
        chunk = message.get("body", b"")
        if chunk:
            yield chunk


def decode_body(shape: type[T], body: bytes) -> T:
    """The body as `shape`. Raises `BadRequest`, and whatever the shape's own checks raise."""
    if not body.strip():
        raise BadRequest("the body is empty; a JSON object was expected")
    if too_large(body):
        raise BadRequest(f"the body has a whole number of more than {BITS} bits")
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise _explained(str(error), shape) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None


def decode_query(shape: type[T], query: QueryParams) -> T:
    """The query's parameters as `shape`, a struct. A parameter of a collection may be repeated, or listed with commas.

    Raises `BadRequest`, and whatever the shape's own checks raise.
    """
    many = {name for name, field in _fields(shapes.type_info(shape)).items() if isinstance(field, _COLLECTIONS)}
    values: dict[str, Any] = {}
    for name in query:
        given = query.getlist(name)
        if name in many:
            values[name] = [part for value in given for part in value.split(",") if part]
        elif len(given) > 1:
            raise BadRequest(f"{name}: may be given once", name)
        else:
            values[name] = given[0]
    try:
        decoded = msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        raise _explained(str(error), shape) from None
    for name, value in msgspec.structs.asdict(decoded).items():  # type: ignore[arg-type]
        if beyond(value):
            raise BadRequest(f"{name}: has more than {BITS} bits", name)
    return decoded


_COLLECTIONS: Final = (
    shapes.ListType,
    shapes.SetType,
    shapes.FrozenSetType,
    shapes.VarTupleType,
)


def _explained(said: str, shape: Any) -> BadRequest:
    """What msgspec said, with the path first and the nearest field that exists."""
    match = _WHERE.fullmatch(said)
    problem, path = (match["problem"], match["path"]) if match else (said, "")
    unknown = _UNKNOWN.fullmatch(problem)
    if unknown:
        name = unknown["name"]
        known = _fields(_at(shapes.type_info(shape), path))
        return BadRequest(f"{_join(path, name)}: there is no such field{_nearest(name, known)}", _join(path, name))
    missing = _MISSING.fullmatch(problem)
    if missing:
        return BadRequest(f"{_join(path, missing['name'])}: is missing", _join(path, missing["name"]))
    choices = _choices(_at(shapes.type_info(shape), path)) if problem.startswith("Invalid enum value") else []
    if choices:
        return BadRequest(f"{path}: must be one of {', '.join(choices)}", path)
    return BadRequest(f"{path or 'the body'}: {problem[:1].lower()}{problem[1:]}", path)


def _nearest(name: str, known: dict[str, shapes.Type]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there are: {', '.join(known)}" if known else ""


def _choices(shape: shapes.Type) -> list[str]:
    parts = shape.types if isinstance(shape, shapes.UnionType) else (shape,)
    return [str(value) for part in parts if isinstance(part, shapes.LiteralType) for value in part.values]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _at(shape: shapes.Type, path: str) -> shapes.Type:
    """The shape at a path such as `messages[0].tool_calls[...]`."""
    for step in _STEP.findall(path):
        shape = _struct_of(shape)
        if isinstance(shape, shapes.DictType):
            shape = shape.value_type
        elif isinstance(shape, shapes.CollectionType):
            shape = shape.item_type
        else:
            shape = _fields(shape).get(step, shapes.AnyType())
    return shape


def _struct_of(shape: shapes.Type) -> shapes.Type:
    """Of a union (a field that may be None) the part that has something inside."""
    if isinstance(shape, shapes.Metadata):
        return _struct_of(shape.type)
    if isinstance(shape, shapes.UnionType):
        inside = [part for part in shape.types if isinstance(part, shapes.StructType | shapes.DictType)]
        collections = [part for part in shape.types if isinstance(part, shapes.CollectionType)]
        return next(iter([*inside, *collections]), shape)
    return shape


def _fields(shape: shapes.Type) -> dict[str, shapes.Type]:
    shape = _struct_of(shape)
    if not isinstance(shape, shapes.StructType):
        return {}
    return {field.encode_name: _struct_of(field.type) for field in shape.fields}
