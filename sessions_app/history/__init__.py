"""The history of interruptions: the table and one stop in full."""
