"""Prompt templates: what fills them, and what is refused before a job starts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.jobs.template import Template, TemplateError


def test_fields_fill_their_places() -> None:
    """Names are replaced by fields, doubled braces by single ones, and other values are written as JSON."""
    template = Template('{{"task": "{task}"}} {n} {tags} from {origin}')
    assert template.names == {"task", "n", "tags", "origin"}
    filled = template.fill({"task": "sum {text}", "n": 3, "tags": ["a", None]}, "in.jsonl:4")
    assert filled == '{"task": "sum {text}"} 3 ["a",null] from in.jsonl:4'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  ", "the prompt is empty"),
        ("no field here", r"put \{text\} or a \{field\} into it"),
        ("Text:\n  {text", "line 2, column 3: a single {; write {{"),
        ("{text} }", "line 1, column 8: a single }"),
        ('{"a": {text}}', "line 1, column 1: a single {"),
        ("{text} {}", "{} is not a field's name"),
        ("{a b}", "{a b} is not a field's name"),
    ],
)
def test_a_faulty_template_names_the_place(text: str, message: str) -> None:
    """A template that cannot be meant is refused with the line and column of its fault."""
    with pytest.raises(TemplateError) as caught:
        Template(text)
    assert message.replace("\\", "") in caught.value.message


def test_a_missing_field_names_what_there_is() -> None:
    """An item without a named field says what it lacks and what it has."""
    with pytest.raises(TemplateError, match=r"in:7: the prompt names \{text\}, but the item's fields are: title, body"):
        Template("{text}").fill({"title": "t", "body": "b"}, "in:7")


@given(st.text(), st.text())
def test_a_fields_own_braces_are_left_alone(before: str, value: str) -> None:
    """Whatever a field and the literal text hold, they come out as they were."""
    template = Template(before.replace("{", "{{").replace("}", "}}") + "{text}")
    assert template.fill({"text": value}, "x") == before + value
