"""Thin wrappers that let one policy run under several learning libraries."""
