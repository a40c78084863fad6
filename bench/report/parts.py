"""What a page consists of, as plain data: sections with targets, pictures and tables. No HTML here."""

from collections.abc import Sequence

from msgspec import Struct


class Target(Struct, frozen=True, kw_only=True):
    """What is asked of a figure, and what it was. `bound` may not be passed upwards, or downwards where `at_least`;
    where it is `strict`, it may not be reached either.

    `met` is what the benchmark itself says, where it says so. `form` is the format of both figures.
    """

    of: str
    measured: float
    bound: float
    met: bool
    at_least: bool = False
    strict: bool = False
    form: str = ",.2f"

    @property
    def asked(self) -> str:
        words = ("over" if self.strict else "at least") if self.at_least else ("under" if self.strict else "at most")
        return f"{words} {self.bound:{self.form}}"

    @property
    def difference(self) -> str:
        """How far the figure is from the bound, with its sign, and as a share of the bound where there is one."""
        apart = self.measured - self.bound
        if self.form.endswith("%"):
            return f"{100 * apart:+.1f} points"
        share = "" if self.bound == 0 else f" ({apart / self.bound:+.1%})"
        return f"{apart:+{self.form}}{share}"


class Table(Struct, frozen=True, kw_only=True):
    """Rows of text under headings. The first `words` columns are words, the others figures."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: int = 1


class Picture(Struct, frozen=True, kw_only=True):
    """A picture as inline SVG, and what it shows."""

    title: str
    svg: str
    caption: str = ""


class Section(Struct, frozen=True, kw_only=True):
    """One benchmark's results."""

    targets: Sequence[Target] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def at_most(of: str, measured: float, bound: float, form: str = ",.2f") -> Target:
    """A target that is met up to its bound."""
    return Target(of=of, measured=measured, bound=bound, met=measured <= bound, form=form)


def under(of: str, measured: float, bound: float, form: str = ",.2f") -> Target:
    """A target that is met below its bound."""
    return Target(of=of, measured=measured, bound=bound, met=measured < bound, strict=True, form=form)


def figure(value: float | None, form: str = ",.2f") -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else format(value, form)
