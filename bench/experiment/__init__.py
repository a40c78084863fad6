"""Experiments: which of several systems, models or environments does better, with an error rate that is kept."""
