"""What people were asked about one tool call, and what the run knows of their answer."""

from agents.answered import Verdict, counts, verdict
from agents.people_events import Answered, Asked


class Pending:
    """One request of people. Their first answer in the log's order is the one, and it never changes.

    An answer that the run only heard of is in its log as well, but maybe behind another one; what is done because of it
    is appended, and by then the log's order is known.
    """

    __slots__ = ("_heard", "_known", "asked")

    def __init__(self, asked: Asked, known: Answered | None = None) -> None:
        self.asked = asked
        self._known = known
        self._heard: Answered | None = None

    def hear(self, answered: Answered, *, in_order: bool) -> None:
        """Somebody answered; `in_order` says that everything before it in the log is known."""
        if not counts(self.asked, answered):
            return
        self._heard = self._heard or answered
        if in_order:
            self._known = self._known or answered

    @property
    def verdict(self) -> Verdict | None:
        """What the answer means as far as it is known, None while there is none."""
        answered = self._known or self._heard
        return None if answered is None else verdict(self.asked, answered)

    def __repr__(self) -> str:
        return f"<Pending {self.asked.key} {self.verdict}>"
