"""The numbers of a report: verdicts from the database, counted and compared with numpy."""
