"""Functions as tools: type hints are their schema, docstrings what the model is told."""

import time
from typing import Literal

import trio

from agents.context import ToolContext

ROOMS = {"oslo": {"Fjord View": 2100, "Station": 900}}
CROWNS_IN_A_EURO = {"NOK": 12, "SEK": 11}

booked: dict[str, str] = {}
"""By the key of the call, so that a call that is made again books nothing twice."""


async def rooms(city: str) -> dict[str, int]:
    """Lists a city's free rooms with their prices for a night, in the country's money.

    Args:
        city: its English name.
    """
    await trio.sleep(0.01)
    return ROOMS[city.lower()]


def in_euros(amount: int, money: Literal["NOK", "SEK"]) -> int:
    """Converts an amount to euros."""
    time.sleep(0.01)  # in a thread, so nobody else waits
    return amount // CROWNS_IN_A_EURO[money]


async def book(room: str, nights: int, euros: int, context: ToolContext) -> str:
    """Books a room.

    Args:
        room: its name.
        nights: how many.
        euros: what the whole stay costs.
    """
    await trio.lowlevel.checkpoint()
    booked.setdefault(context.key, f"{room}, {nights} nights, {euros} euros")
    return f"booked: {booked[context.key]}"
