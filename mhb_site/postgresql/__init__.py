"""The production database: Django's PostgreSQL without a health-check query for each request."""
