"""SMAC, the multi-agent challenge."""
