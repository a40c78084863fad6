"""Which version this is."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version


def version() -> str:
    """The installed version; `source` where Headrace runs from its source tree uninstalled."""
    try:
        return distribution_version("headrace")
    except PackageNotFoundError:
        return "source"
