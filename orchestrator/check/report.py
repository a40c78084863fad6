"""What a check found, as plain data: for the terminal, for JSON, for a person who writes the configuration."""

from typing import Literal

from msgspec import Struct

from agents.messages import Usage

State = Literal["ok", "no", "unclear"]
Verdict = Literal["usable", "incomplete", "unusable", "unfinished"]


class Judgement(Struct, frozen=True):
    """The answer to one question, in one sentence."""

    state: State
    says: str


class Finding(Struct, frozen=True, kw_only=True):
    """One question and its answer. `matters` marks what Headrace or its agents cannot do without.

    Durations in seconds. `first_token` is from sending to the first piece of the answer; `tokens_per_second` is from
    the first piece to the last, by reported usage. All are of the request that answered the question, None where
    there was none or where it did not say.
    """

    name: str
    endpoint: str
    state: State
    says: str
    matters: bool
    first_token: float | None = None
    tokens_per_second: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class LimitSeen(Struct, frozen=True, kw_only=True):
    """A limit that response headers told of, as last seen. `reset` in seconds; `line` is what to put into the file.

    `span` is the time the limit seems to be for, in seconds, by how fast it refills; None where that can't be told.
    """

    kind: str
    endpoint: str
    limit: float | None
    remaining: float | None
    reset: float | None
    span: float | None = None
    line: str = ""


class Setting(Struct, frozen=True):
    """A line for the endpoint's table in the configuration, and what shows that it is needed."""

    line: str
    why: str


class CheckReport(Struct, frozen=True, kw_only=True):
    """The whole check. `verdict` is `unfinished` where it was interrupted; `message` says why it is not `usable`.

    `requests` were sent in all, of which `unreported` were answered without usage. `cost_micro` is in millionths of a
    dollar, None without a price.
    """

    backend: str
    model: str
    verdict: Verdict
    message: str
    findings: tuple[Finding, ...]
    limits: tuple[LimitSeen, ...] = ()
    settings: tuple[Setting, ...] = ()
    requests: int = 0
    unreported: int = 0
    usage: Usage = Usage()
    cost_micro: int | None = None
    seconds: float = 0.0
