"""The tool of the pool benchmark, which every process that drives its runs imports: it does next to nothing."""


async def look(text: str = "") -> str:
    """Look something up."""
    return f"seen {len(text)}"
