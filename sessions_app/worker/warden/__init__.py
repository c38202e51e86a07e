"""The warden: a small process beside each worker that owns every tool process; none outlives its authority (J6)."""
