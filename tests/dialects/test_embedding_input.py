"""How large an embeddings request is, and what its answer says that it cost."""

import pytest
from msgspec import Raw

from agents.messages import Usage
from orchestrator.dialects.embeddings import BadInput, embedding_input_bytes, embedding_usage


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ('"abc"', 3),
        ('"h\u00e9"', 3),
        ('""', 0),
        ('["abc", "de"]', 5),
        ("[1, 2, 3]", 12),
        ("[[1, 2], [3]]", 12),
    ],
)
def test_every_form_of_input_has_a_size(given: str, size: int) -> None:
    """Text counts by its bytes, token numbers by four bytes each."""
    assert embedding_input_bytes({"input": Raw(given.encode())}) == size


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("null", "input"),
        ("[]", "input"),
        ("3", "input"),
        ("{}", "input"),
        ('["a", {}]', "input[1]"),
        ("[[1], []]", "input[1]"),
        ('[["a"]]', "input[0]"),
        ("[true]", "input[0]"),
        ("[1.5]", "input[0]"),
    ],
)
def test_what_is_no_input_is_named(given: str, field: str) -> None:
    """Anything else is refused with the path of what was wrong."""
    with pytest.raises(BadInput) as caught:
        embedding_input_bytes({"input": Raw(given.encode())})
    assert (caught.value.field, caught.value.status) == (field, 400)


def test_a_missing_input_is_named() -> None:
    """A request without input says so."""
    with pytest.raises(BadInput, match="input: is missing"):
        embedding_input_bytes({})


@pytest.mark.parametrize(
    ("document", "usage"),
    [
        (b'{"data": [], "usage": {"prompt_tokens": 8, "total_tokens": 8}}', Usage(input=8, output=0)),
        (b'{"usage": {"total_tokens": 8}}', Usage(input=8, output=0)),
        (b'{"usage": {}}', None),
        (b'{"usage": null}', None),
        (b"{}", None),
        (b"<html>", None),
    ],
)
def test_usage_is_what_was_reported(document: bytes, usage: Usage | None) -> None:
    """The tokens come from the document, and what it does not say is unknown."""
    assert embedding_usage(document) == usage
