"""Agent sessions in a closed loop: what the order of runs does to their completion."""
