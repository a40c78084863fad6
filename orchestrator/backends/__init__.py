"""Adapters to model servers; each speaks one dialect and maps its failures to `agents.errors`."""
