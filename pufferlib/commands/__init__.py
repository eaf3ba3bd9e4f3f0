"""The subcommands of `puffer`, one module each; `pufferlib.cli` chooses among them."""
