"""Decisions without I/O: nothing here awaits, reads a clock or draws from a global random source."""
