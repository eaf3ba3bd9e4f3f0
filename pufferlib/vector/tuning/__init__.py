"""What `pufferlib.vector.autotune` is made of: measuring, the settings to measure, the report."""
