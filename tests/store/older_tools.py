"""The tools of the runs in `older/`."""


async def stock(part: str) -> str:
    """How many of a part there are."""
    return f"{len(part)} of {part}"


async def letter(to: str) -> str:
    """Sends a letter."""
    return f"sent to {to}"
