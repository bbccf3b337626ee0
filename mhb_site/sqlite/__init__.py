"""The embedded database: Django's SQLite, with a queue for the writers of a process."""
