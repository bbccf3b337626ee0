"""Funnels as JSON, for the API of batches and releases."""
