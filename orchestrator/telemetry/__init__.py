"""Traces of runs and calls for OpenTelemetry. OpenTelemetry itself is imported only where tracing is on."""
