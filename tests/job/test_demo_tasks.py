"""The demo's tasks: their data is whole, and right answers are told from wrong ones."""

import json

import pytest

from orchestrator.cli.demo_tasks import DemoTenant, multiply, tenants

ORDERS, SUPPORT, ARCHIVE = tenants()


@pytest.mark.parametrize("tenant", tenants(), ids=lambda tenant: tenant.name)
def test_items_are_distinct_and_their_answers_recognised(tenant: DemoTenant) -> None:
    """Every item has an id of its own, fits the model's context many times over, and accepts its expected answer."""
    assert len({item.id for item in tenant.items}) == len(tenant.items) >= 12
    for item in tenant.items:
        assert len(tenant.prompt(item)) < 600
        assert tenant.right(item, item.expect)


def test_there_are_enough_agents_and_weights_differ() -> None:
    """Three tenants with three weights and at least 24 agents."""
    assert len({tenant.weight for tenant in tenants()}) == 3
    assert sum(len(tenant.items) for tenant in tenants()) >= 24


def test_a_schema_answer_is_read_by_its_value() -> None:
    """A JSON object of one field counts as that field's value, whatever its spacing."""
    letter = SUPPORT.items[0]
    assert letter.expect == "positive"
    assert SUPPORT.tidy('{\n  "sentiment": "positive"\n}') == "positive"
    assert SUPPORT.right(letter, '{"sentiment":"positive"}')
    assert not SUPPORT.right(letter, '{"sentiment":"negative"}')


def test_a_number_inside_another_is_not_the_answer() -> None:
    """`1360` is found in a sentence, but neither in `13600` nor in `21360`."""
    order = ORDERS.items[0]
    assert order.expect == "1360"
    assert ORDERS.right(order, "The order costs 1360 euros.")
    assert not ORDERS.right(order, "The order costs 13600 euros.")
    assert not ORDERS.right(order, "The order costs 21360 euros.")


def test_the_demonstration_is_true() -> None:
    """The turns shown before an order use the tool as it is: same name, valid arguments, its real result."""
    (tool,) = ORDERS.agent.tools
    shown = ORDERS.agent.demonstration
    calls = {call.id: call for message in shown for call in message.tool_calls}
    results = {message.tool_call_id: message.content for message in shown if message.role == "tool"}
    assert len(calls) == len(results) == 3
    for key, call in calls.items():
        assert call.name == tool.name
        arguments = tool.decode(call.arguments)
        assert arguments == json.loads(call.arguments)
        assert results[key] == str(multiply(**json.loads(call.arguments)))
