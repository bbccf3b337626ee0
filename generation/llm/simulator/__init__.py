"""Simulated models: an HTTP server for chat completions and embeddings that answers from scripts.

It replaces models in the demo and in tests, behind the same client; every answer is marked as
simulated.
"""
