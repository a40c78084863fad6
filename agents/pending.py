"""What people were asked about one tool call, and what the run knows of their answer."""

from agents.answered import Verdict, counts, verdict
from agents.people_events import Answered, Asked


class Pending:
    """One request of people. Their first answer behind it in the log is the one, and it never changes.

    An answer that the run only heard of is in its log as well, but maybe behind another one; what is done because of it
    is appended, and by then the log's order is known. While the request itself is `being_asked`, that is until its
    append has returned, whatever is learned in the log's order stands before it, and answers nothing.
    """

    __slots__ = ("_early", "_heard", "_known", "asked", "being_asked")

    def __init__(self, asked: Asked, known: Answered | None = None) -> None:
        self.asked = asked
        self.being_asked = False
        self._known = known
        self._heard: Answered | None = None
        self._early: list[Answered] = []

    def hear(self, answered: Answered, *, in_order: bool) -> None:
        """Somebody answered; `in_order` says that everything before it in the log is known."""
        if not counts(self.asked, answered) or answered in self._early:
            return
        if in_order and self.being_asked:
            self._early.append(answered)
            self._heard = None if self._heard == answered else self._heard
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
