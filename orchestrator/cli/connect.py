"""A command's way to the daemon: its address, its client, and every error as one sentence with the right exit code."""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeVar

import trio
import typer

from agents.errors import HeadraceError, InvalidLimits
from orchestrator.backends.secret import Secret, checked_key
from orchestrator.cli.exits import BACKEND, SOME_FAILED, USAGE, complain
from orchestrator.cli.render import clean
from orchestrator.cli.signals import SignalEnd, until_signalled
from orchestrator.client.client import Client, open_client
from orchestrator.client.errors import BadAnswer, ClientError, DaemonLost, NoDaemon, Refusal
from orchestrator.client.patience import patiently

KEY: Final = "HEADRACE_KEY"
KEY_FILE: Final = "HEADRACE_KEY_FILE"
GET_A_KEY: Final = f"put yours into {KEY}; on the daemon's machine, `headrace keys add TENANT` makes one"
UNAUTHORIZED: Final = 401

T = TypeVar("T")
Work = Callable[[Client, SignalEnd], Awaitable[int]]

Url = Annotated[str, typer.Option("--url", envvar="HEADRACE_URL", help="The daemon's address.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Fail at once where the daemon has no room, do not wait.")]

TAKE_BACK_SECONDS = 2.0
START_ONE = "start one with `headrace serve`"
TWO_WAYS = f"{START_ONE}, or give --embedded to work in this process"


def speak(url: str, work: Work, *, way_out: str = START_ONE, interrupted: str = "interrupted") -> int:
    """Runs a command's work with a client, to its exit code; no error leaves it.

    `way_out` is what a person is told where there is no daemon, `interrupted` what they are told after Ctrl-C.
    """
    talk = partial(_speak, url, work, way_out)
    return trio.run(partial(until_signalled, talk, interrupted), restrict_keyboard_interrupt_to_checkpoints=True)


async def _speak(url: str, work: Work, way_out: str, ending: SignalEnd) -> int:
    key: Secret | None = None
    try:
        key = own_key()
        async with open_client(url, key=key, tell=tell) as client:
            return await work(client, ending)
    except HeadraceError as error:
        complain(_complaint(error, url, key, way_out))
        return exit_code(error)
    except BrokenPipeError:
        # `| head` has what it wanted; without this the interpreter would complain about it once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SOME_FAILED


def own_key(environ: Mapping[str, str] = os.environ) -> Secret | None:
    """The key that commands send: what $HEADRACE_KEY holds, or the file that $HEADRACE_KEY_FILE names.

    None where neither is set. Raises `InvalidLimits`.
    """
    if text := environ.get(KEY, ""):
        return checked_key(KEY, "the environment variable", text)
    if place := environ.get(KEY_FILE, ""):
        try:
            return checked_key(KEY_FILE, place, Path(place).read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            problem = error.strerror if isinstance(error, OSError) else "it is not text"
            raise InvalidLimits(KEY_FILE, f"cannot read {place}: {problem}") from None
    return None


def _complaint(error: HeadraceError, url: str, key: Secret | None, way_out: str) -> str:
    if isinstance(error, NoDaemon):
        return f"{clean(error.message)}; {way_out}"
    if isinstance(error, Refusal) and error.status == UNAUTHORIZED:
        what = "asks for a key, and none is set" if key is None else "does not take this key, which it may have revoked"
        return f"the daemon at {clean(url)} {what}; {GET_A_KEY}"
    return clean(error.message)


def tell(message: str) -> None:
    """Something a person should know while a command goes on."""
    complain(clean(message))


async def ask(call: Callable[[], Awaitable[T]], *, wait: bool) -> T:
    """What the daemon answers; where it is full or on its way up or down, later, if `wait` says so."""
    return await (patiently(call, tell) if wait else call())


async def begin(call: Callable[[], Awaitable[T]], take_back: Callable[[], Awaitable[object]], *, wait: bool) -> T:
    """As `ask`, for what begins something. Interrupted on the way, it may have begun: then it is taken back."""
    try:
        return await ask(call, wait=wait)
    except trio.Cancelled:
        with trio.CancelScope(shield=True, relative_deadline=TAKE_BACK_SECONDS), suppress(ClientError):
            await take_back()
        raise


def exit_code(error: HeadraceError) -> int:
    """3 where a daemon or its backends cannot be used, 2 where the request is at fault, 1 where it broke off midway."""
    if isinstance(error, NoDaemon | BadAnswer):
        return BACKEND
    if isinstance(error, DaemonLost):
        return SOME_FAILED
    if isinstance(error, Refusal) and (error.passing or error.status >= 500):
        return BACKEND
    return USAGE
