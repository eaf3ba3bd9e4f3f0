"""Several training machines at once, over ssh: what `invoke fleet.…` does."""
