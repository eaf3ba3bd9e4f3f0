"""What SMAC plays StarCraft II with; installed where SMAC is."""
