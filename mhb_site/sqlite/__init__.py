"""The embedded database: Django's SQLite, whose writers of one process queue up."""
