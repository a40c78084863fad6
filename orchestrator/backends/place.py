"""Who answered, as messages say it."""

from msgspec import Struct

from orchestrator.backends.secret import Secret, excerpt
from orchestrator.dialects.text import scrub


class Place(Struct, frozen=True):
    """Who answered, for messages: the endpoint's host, and what must never be quoted."""

    host: str
    secrets: tuple[Secret, ...] = ()

    def quote(self, text: str) -> str:
        return excerpt(scrub(text), self.secrets)
