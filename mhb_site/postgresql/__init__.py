"""The database of an installation: Django's PostgreSQL."""
