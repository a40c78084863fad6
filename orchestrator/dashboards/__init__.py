"""Grafana's dashboards as data, and what is shipped with them. `python -m orchestrator.dashboards` writes the JSON."""
