"""Numbers of a run: read from the database as a table of verdicts, counted and compared with numpy."""
