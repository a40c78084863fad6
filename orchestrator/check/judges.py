"""What an answer says about the server: one function per question, pure.

A judge says `no` only for what the server did; what a weak model, a limit or a passing failure may explain is
`unclear`. The unit of doubt is one sentence.
"""

import json
from collections.abc import Mapping, Sequence

from agents.errors import ModelError, Refused, Throttled
from agents.messages import ToolCall
from orchestrator.check.answer import Answer
from orchestrator.check.report import Judgement

PASSWORD = "mill"
LEVEL = 118
TOOL = "water_level"
SCHEMA_STATES = ("open", "closed")

_QUICK = 0.05
"""Seconds below which an answer is too short a time to say in which order its pieces came."""

_BUFFERED = 0.05
"""A stream whose pieces all come within this part of the whole time was held back somewhere."""

_LONG_ENOUGH = 0.5
"""Seconds from which on an answer should show its pacing."""

_BYTES_PER_TOKEN = 8
"""More text than that in a token of a long English input means that not all of it was counted."""

_LONGEST_QUOTE = 60

Answers = Mapping[str, Sequence[Answer]]


def reachable(answers: Answers) -> Judgement:
    """Whether there was an answer at all."""
    answer = answers["greeting"][0]
    if answer.error is not None:
        return Judgement("no", answer.error.message)
    if answer.overlong:
        return Judgement("ok", "the address is right and the key accepted")
    name = answer.reply.model.rpartition("/")[2] if answer.reply is not None else ""
    called = f"; it calls the model {_quote(name)}" if name and name not in answer.request.model else ""
    return Judgement("ok", f"the address is right and the key accepted{called}")


def follows_system(answers: Answers) -> Judgement:
    """Whether the one word came that the system message asked for."""
    answer = answers["greeting"][0]
    if answer.error is not None:
        return _failed(answer.error)
    if PASSWORD in answer.text.casefold():
        return Judgement("ok", "the system message was followed")
    if not answer.text.strip():
        return Judgement("unclear", "the answer had no text: a model that thinks first needs a larger max_tokens")
    return Judgement("no", f"the answer lacks the one word that the system message asked for: {_quote(answer.text)}")


def streams(answers: Answers) -> Judgement:
    """Whether an answer comes in pieces, as it is made."""
    answer = _best(answers["story"])
    if answer.error is not None:
        return _failed(answer.error)
    if answer.pieces < 2:
        return Judgement("no", f"the whole answer came in one piece after {_seconds(answer.seconds)}")
    if answer.seconds >= _LONG_ENOUGH and answer.spread < _BUFFERED * answer.seconds:
        return Judgement("no", f"{answer.pieces} pieces came all together at the end, after {_seconds(answer.seconds)}")
    if answer.reads < 2:
        return Judgement("unclear", f"{answer.pieces} pieces came so fast that nothing can be said of their order")
    return Judgement("ok", f"{answer.pieces} pieces over {_seconds(answer.spread)}")


def reports_usage(answers: Answers) -> Judgement:
    """Whether tokens are reported."""
    answer = _best(answers["story"])
    if answer.error is not None:
        return _failed(answer.error)
    if answer.overlong:
        return Judgement("unclear", "the answer was cut off here before its usage could come")
    usage = answer.usage
    if usage is None or usage.all_input is None or usage.output is None:
        return Judgement("no", "no token counts came: use is estimated, and what a budget reserved stays unknown")
    return Judgement("ok", f"{usage.all_input} tokens in and {usage.output} out were reported")


def honours_max_tokens(answers: Answers) -> Judgement:
    """Whether output ends where it was told to."""
    answer = _best(answers["story"])
    bound = answer.request.max_tokens or 0
    if answer.overlong:
        return Judgement("no", f"the answer went far beyond {bound} tokens and was cut off here")
    if answer.error is not None:
        return _failed(answer.error)
    output = answer.usage.output if answer.usage is not None else None
    ended = answer.reply.finish_reason if answer.reply is not None else "stop"
    if output is not None and output > bound:
        return Judgement("no", f"{output} tokens came where {bound} were allowed")
    if ended == "length":
        return Judgement("ok", f"the answer ended at {bound} tokens and says so")
    return Judgement("unclear", f"the answer ended by itself ({ended}) before it reached {bound} tokens")


def two_at_once(answers: Answers) -> Judgement:
    """Whether two calls are worked on together."""
    pair = answers["story"]
    if len(pair) < 2:
        return Judgement("unclear", "not asked: too few requests were left")
    throttled = [a.error for a in pair if isinstance(a.error, Throttled)]
    if len(throttled) == 1 and not throttled[0].exhausted:
        return Judgement("no", "the second of two calls was refused with 429: one call at a time is allowed")
    for answer in pair:
        if answer.error is not None:
            return _failed(answer.error)
    first, second = sorted(pair, key=lambda a: a.ended)
    if first.seconds < _QUICK and second.seconds < _QUICK:
        return Judgement("unclear", "both answers came too fast to tell")
    if second.first is not None and second.first < first.ended:
        return Judgement("ok", "two calls were answered side by side")
    return Judgement("no", "the second answer began only when the first had ended: one call at a time is worked on")


def same_again(answers: Answers) -> Judgement:
    """Whether equal requests with a seed and temperature 0 get equal answers."""
    for pair in (answers.get("story", ()), [*answers.get("long", ()), *answers.get("long_again", ())]):
        whole = [answer for answer in pair if answer.reply is not None]
        if len(whole) < 2:
            continue
        if whole[0].request.seed is None:
            return Judgement("no", "a temperature and a seed are refused, so answers cannot be fixed")
        if whole[0].text == whole[1].text and whole[0].text:
            return Judgement("ok", "the same request with temperature 0 and a seed got the same answer")
        return Judgement("no", "the same request with temperature 0 and a seed got another answer")
    return Judgement("unclear", "there are no two whole answers to the same request")


def calls_tool(answers: Answers) -> Judgement:
    """Whether a call that was asked for by name is made, with arguments that are JSON."""
    answer = answers["tool"][0]
    if answer.error is not None:
        return _failed(answer.error)
    reply = answer.reply
    if good_calls(answers["tool"], TOOL):
        return Judgement("ok", "the tool was called as its schema says")
    calls = reply.message.tool_calls if reply is not None else ()
    if calls:
        said = _quote(f"{calls[0].name}({calls[0].arguments})")
        return Judgement("no", f"the tool call does not fit the tool that it had to call: {said}")
    if answer.overlong or (reply is not None and reply.finish_reason == "length"):
        return Judgement("unclear", f"no tool call came within {answer.request.max_tokens} tokens")
    return Judgement("no", f"it had to call the tool and answered with text: {_quote(answer.text)}")


def uses_result(answers: Answers) -> Judgement:
    """Whether a tool's result can be handed back, and is used."""
    answer = answers["tool_result"][0]
    if answer.error is not None:
        return _failed(answer.error)
    if str(LEVEL) in answer.text:
        return Judgement("ok", "the tool's result was taken back and used in the answer")
    if answer.reply is not None and answer.reply.message.tool_calls:
        return Judgement("unclear", "the tool's result was taken back, and the model called the tool again")
    return Judgement("unclear", f"the result was taken back, but the answer does not use it: {_quote(answer.text)}")


def keeps_schema(answers: Answers) -> Judgement:
    """Whether an answer fits the schema although the question asks for prose."""
    answer = answers["schema"][0]
    if answer.error is not None:
        return _failed(answer.error)
    if _fits_schema(answer.text):
        return Judgement("ok", "the schema is enforced, also against the question")
    if answer.overlong or (answer.reply is not None and answer.reply.finish_reason == "length"):
        return Judgement("unclear", f"the answer was not finished within {answer.request.max_tokens} tokens")
    return Judgement("no", f"the answer does not fit the schema: {_quote(answer.text)}")


def reads_long(answers: Answers) -> Judgement:
    """Whether all of a moderately long input is read."""
    answer = answers["long"][0]
    if answer.error is not None:
        return _failed(answer.error)
    given = answer.usage.all_input if answer.usage is not None else None
    size = answer.request.input_bytes()
    if given is None:
        return Judgement("unclear", f"{size:,} bytes were taken, and nobody says how many tokens of them were read")
    if given * _BYTES_PER_TOKEN < size:
        return Judgement("no", f"only {given:,} tokens of {size:,} bytes were counted: long input is silently cut")
    return Judgement("ok", f"{given:,} tokens of input were read; the context may be larger")


def reports_cached(answers: Answers) -> Judgement:
    """Whether a repeated input is reported as read from a cache."""
    answer = answers["long_again"][0]
    if answer.error is not None:
        return _failed(answer.error)
    if not answers.get("long"):
        return Judgement("unclear", "the long input was not repeated")
    usage = answer.usage
    if usage is None or usage.cached is None:
        return Judgement("no", "it does not say how much of a repeated input came from a cache")
    if usage.cached == 0:
        return Judgement("no", "a repeated input was reported as not cached")
    return Judgement(
        "ok", f"{usage.cached:,} of {usage.all_input or 0:,} tokens of the repeated input came from a cache"
    )


def explains_errors(answers: Answers) -> Judgement:
    """Whether a wrong request is refused with a code that a program can read."""
    answer = answers["unknown_model"][0]
    error = answer.error
    if error is None:
        return Judgement("no", "a model that does not exist was answered for: the server ignores the model's name")
    if not isinstance(error, Refused):
        return _failed(error)
    if error.code is None:
        return Judgement("no", f"a wrong request is refused with status {error.status} and no code to tell why")
    return Judgement("ok", f"a wrong request is refused with status {error.status} and the code {error.code}")


def good_calls(answers: Sequence[Answer], name: str) -> list[ToolCall]:
    """The calls of the tool `name` whose arguments are as its schema says."""
    found = []
    for answer in answers:
        reply = answer.reply
        for call in reply.message.tool_calls if reply is not None else ():
            arguments = _json(call.arguments)
            if call.name == name and isinstance(arguments, dict) and isinstance(arguments.get("gate"), str):
                found.append(call)
    return found


def _best(answers: Sequence[Answer]) -> Answer:
    """The first that was answered, else the first."""
    return next((answer for answer in answers if answer.error is None), answers[0])


def _failed(error: ModelError) -> Judgement:
    return Judgement("no" if isinstance(error, Refused) else "unclear", error.message)


def _fits_schema(text: str) -> bool:
    value = _json(text)
    return (
        isinstance(value, dict)
        and set(value) == {"state", "safe"}
        and value["state"] in SCHEMA_STATES
        and isinstance(value["safe"], bool)
    )


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _quote(text: str) -> str:
    line = " ".join(text.split())
    line = "".join(char if char.isprintable() else "?" for char in line)
    return repr(line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1] + "…")


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"
