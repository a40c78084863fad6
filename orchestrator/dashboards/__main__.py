"""Writes the dashboards' JSON files into the source tree: `python -m orchestrator.dashboards`."""

from orchestrator.dashboards.all import files
from orchestrator.dashboards.shipped import SOURCE


def main() -> None:
    """Every file, whether it has changed or not."""
    for name, text in files().items():
        (SOURCE / "dashboards" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
