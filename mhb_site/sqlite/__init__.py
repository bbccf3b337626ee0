"""The embedded database: Django's SQLite."""
