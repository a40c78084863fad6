"""Blocks of a message, decoded as they are typed and not by way of the lenient path."""

import msgspec
import pytest

from orchestrator.dialects.messages_wire import BlockWire


@pytest.mark.parametrize("given", ['{"a":1}', "{}", "null", '""'])
def test_a_tool_call_with_its_input_is_decoded(given: str) -> None:
    """Whatever stands as a tool call's input is kept verbatim, and a block without one has none."""
    block = msgspec.json.decode(f'{{"type":"tool_use","id":"t","input":{given}}}', type=BlockWire)
    assert bytes(block.input) == given.encode()
    assert bytes(msgspec.json.decode(b'{"type":"text"}', type=BlockWire).input) == b""
