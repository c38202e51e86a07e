"""steerweb: watch, steer and stop agent sessions from every device. This package is the project's wiring."""
