"""What the served pages say and show, before any script runs."""
