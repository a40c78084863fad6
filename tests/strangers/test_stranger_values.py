"""Every field of every operation, given values that no program of good will sends: found by the operations' own types,
so that a new field is tried as well."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import inspect as shapes

from orchestrator.api.operations import Operation
from tests.strangers.before import OPERATIONS, worked
from tests.strangers.test_stranger_keys import BODIES, filled

MESSAGE: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
WHOLE: dict[str, Any] = {
    **BODIES,
    "/api/calls": {"request": {**MESSAGE, "model": ""}},
    "/api/runs": {"task": "x"},
    "/api/jobs": {"prompt": "{text}"},
    "/api/workers/poll": {"worker": "w", "room": 1, "seconds": 0.01},
    "/v1/chat/completions": MESSAGE,
    "/v1/messages": {**MESSAGE, "max_tokens": 5},
    "/v1/messages/count_tokens": MESSAGE,
    "/v1/responses": {"model": "m", "input": "x"},
    "/v1/embeddings": {"model": "m", "input": "x"},
}
"""A good body of each operation, into which the bad value goes."""

NUMBERS = (10**400, -(10**400), 2**63, -1, 1e308)
TEXTS = ("\x00", "\ud800", "L" * 300_000, "\x1b[2J\r\n", "../..")
LONG_NUMBERS = (str(10**400), str(-(2**63) - 1), "9" * 5000)
ODD_TEXTS = ("%00", "%ff%fe", "L" * 9_000, "%ed%a0%80", "%0d%0aX:1")
FAIL = frozenset({500})

Path_ = tuple[str | int, ...]


def places(shape: shapes.Type, kinds: tuple[type, ...], above: tuple[type, ...] = ()) -> Iterator[Path_]:
    """Where a value of one of these kinds can stand."""
    if isinstance(shape, shapes.Metadata):
        yield from places(shape.type, kinds, above)
    elif isinstance(shape, shapes.UnionType):
        for part in shape.types:
            yield from places(part, kinds, above)
    elif isinstance(shape, shapes.StructType) and shape.cls not in above:
        for field in shape.fields:
            for rest in places(field.type, kinds, (*above, shape.cls)):
                yield (field.encode_name, *rest)
    elif isinstance(shape, shapes.VarTupleType | shapes.ListType):
        for rest in places(shape.item_type, kinds, above):
            yield (0, *rest)
    elif isinstance(shape, kinds):
        yield ()


def placed(body: Any, path: Path_, value: Any) -> Any:
    """The body with this value in that place, and what has to be around it."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        inside = body[0] if isinstance(body, list) and body else {}
        return [placed(inside, tuple(rest), value)]
    outside = dict(body) if isinstance(body, dict) else {}
    return {**outside, step: placed(outside.get(step, {}), tuple(rest), value)}


NUMERIC = (shapes.IntType, shapes.FloatType, shapes.AnyType)
TEXTUAL = (shapes.StrType, shapes.LiteralType, shapes.EnumType, shapes.AnyType)


def asked(operation: Operation, ids: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """All bad requests for one operation: path and body."""
    path, body = filled(operation, ids), WHOLE.get(operation.path, {})
    for shape in (operation.body, operation.document):
        if shape is None:
            continue
        for kinds, values in ((NUMERIC, NUMBERS), (TEXTUAL, TEXTS)):
            for place in sorted(set(places(shapes.type_info(shape), kinds)), key=str):
                for value in values:
                    yield path, json.dumps(placed(deepcopy(body), place, value)).encode()
    if operation.query is not None and not operation.events:
        bare = path.partition("?")[0]
        for kinds, texts in ((NUMERIC, LONG_NUMBERS), (TEXTUAL, ODD_TEXTS)):
            for place in sorted(set(places(shapes.type_info(operation.query), kinds)), key=str):
                for text in texts:
                    yield f"{bare}?{place[0]}={text}", json.dumps(body).encode() if body else b""


LISTS = ("/api/runs", "/api/jobs", "/api/sessions", "/api/queue", "/api/approvals", "/metrics")


@pytest.mark.parametrize("whose", ["/api/runs", "/api/jobs", "/api/approvals", "/api/workers", "/api/", "/v1/"])
async def test_no_value_breaks_anything(tmp_path: Path, whose: str) -> None:
    """Whatever stands in a field, the answer says what is wrong with it or does it; and no list that others look at is
    broken or swollen by what was taken."""
    others = ("/api/runs", "/api/jobs", "/api/approvals", "/api/workers")
    tried = 0
    async with worked(tmp_path) as (they, ids):
        key = {"authorization": f"Bearer {they.keys['ops']}"}
        async with httpx2.AsyncClient(base_url=they.url, trust_env=False, timeout=20, headers=key) as http:
            for operation in OPERATIONS:
                if not operation.path.startswith(whose) or (whose == "/api/" and operation.path.startswith(others)):
                    continue
                for path, body in asked(operation, ids):
                    answer = await http.request(operation.method, path, content=body)
                    assert answer.status_code not in FAIL, (operation.method, path[:200], body[:200], answer.text)
                    tried += 1
            for path in LISTS:
                answer = await http.get(path)
                assert answer.status_code == 200, (path, answer.text)
                assert len(answer.content) < 200_000, path
    assert tried >= 10
