"""What the demo's agents work on: three tenants, their agents, their texts, and what a right answer looks like.

The tasks are ones that a model of 135 million parameters does well. What it was tried with shapes them: it labels a
letter rightly only when the question stands before the text, uses a tool only after it was shown how, and copies a
date well but cannot rewrite it. Temperature 0 and a fixed seed make a run repeatable.
"""

import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from agents.amounts import Limits
from agents.messages import Message, ToolCall
from agents.spec import AgentSpec
from agents.tools import Tool

MODEL = "SmolLM2-135M-Instruct"
SEED = 1


class DemoItem(Struct, frozen=True, forbid_unknown_fields=True):
    """One text and the answer that a careful reader would give."""

    id: str
    text: str
    expect: str


class DemoTenant(Struct, frozen=True, kw_only=True):
    """One tenant of the demo: its weight, its agent, and its items. `question` stands before each text."""

    name: str
    weight: float
    about: str
    agent: AgentSpec
    question: str
    items: tuple[DemoItem, ...]

    def prompt(self, item: DemoItem) -> str:
        """The task of one run."""
        return f"{self.question}\n\n{item.text}" if self.question else item.text

    def tidy(self, answer: str) -> str:
        """The model's answer as one line for a table; a JSON object with one field becomes that field's value."""
        try:
            value = json.loads(answer)
        except ValueError:
            value = answer
        if isinstance(value, dict) and len(value) == 1:
            (value,) = value.values()
        return " ".join(str(value).split())

    def right(self, item: DemoItem, answer: str) -> bool:
        """Whether the answer says what is expected, as a word or number of its own."""
        return re.search(rf"(?<!\w){re.escape(item.expect)}(?!\w)", self.tidy(answer)) is not None


def multiply(a: int, b: int) -> int:
    """Multiplies two numbers."""
    return a * b


def tenants() -> tuple[DemoTenant, ...]:
    """The demo's tenants, heaviest first. Their work is about as unequal as their weights, so that all end together."""
    return (_orders(), _support(), _archive())


def load(name: str) -> tuple[DemoItem, ...]:
    """The items of one data file of the package."""
    text = files("orchestrator.cli.demo_data").joinpath(f"{name}.jsonl").read_text(encoding="utf-8")
    return tuple(msgspec.json.decode(line, type=DemoItem) for line in text.splitlines())


def _orders() -> DemoTenant:
    return DemoTenant(
        name="orders",
        weight=3,
        about="work out what an order costs, with a tool",
        question="",
        items=load("orders"),
        agent=_agent(
            "order-clerk",
            system="You work out what an order costs. Use the tool multiply.",
            tools=(Tool(multiply, read_only=True),),
            max_tokens=60,
            demonstration=(
                *_shown("1", "The baker orders 12 bags of flour. A bag costs 9 euros.", 12, 9),
                *_shown("2", "A school wants 30 chairs at 14 euros each.", 30, 14),
                *_shown("3", "Please send 7 lamps. One lamp costs 25 euros.", 7, 25),
            ),
        ),
    )


def _support() -> DemoTenant:
    return DemoTenant(
        name="support",
        weight=2,
        about="tell happy letters from angry ones, as JSON",
        question="Is the sentiment of this letter positive or negative? Answer in compact JSON.",
        items=load("letters"),
        agent=_agent(
            "letter-reader",
            system="You label the sentiment of a letter.",
            max_tokens=40,
            response_format=_schema("sentiment", {"enum": ["positive", "negative"]}),
        ),
    )


def _archive() -> DemoTenant:
    question = "What is the date in this note?"
    shown = (
        ("The old ferry sank on 9 March 1899 with a load of bricks. Its bell was saved.", "9 March 1899"),
        ("On 17 October 1915 the first telephone rang in the post office.", "17 October 1915"),
        ("The well in the market dried up on 30 August 1921, the hottest day of the year.", "30 August 1921"),
    )
    return DemoTenant(
        name="archive",
        weight=1,
        about="find the date in a note from an old newspaper",
        question=question,
        items=load("notes"),
        agent=_agent(
            "archivist",
            system="You find the date in a note.",
            max_tokens=24,
            demonstration=tuple(
                message
                for text, date in shown
                for message in (Message("user", f"{question}\n\n{text}"), Message("assistant", date))
            ),
        ),
    )


def _agent(name: str, **fields: Any) -> AgentSpec:
    return AgentSpec(name=name, model=MODEL, limits=Limits(rounds=3), temperature=0.0, seed=SEED, **fields)


def _shown(key: str, text: str, a: int, b: int) -> Iterator[Message]:
    """Four turns of an order worked out with the tool: the order, the call, its result, the answer."""
    call = ToolCall(f"shown-{key}", "multiply", json.dumps({"a": a, "b": b}))
    yield Message("user", text)
    yield Message("assistant", tool_calls=(call,))
    yield Message("tool", str(a * b), tool_call_id=call.id)
    yield Message("assistant", f"The order costs {a * b} euros.")


def _schema(name: str, field: Mapping[str, Any]) -> Mapping[str, Any]:
    """An OpenAI `response_format` for an object with one field."""
    schema = {"type": "object", "properties": {name: field}, "required": [name], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
