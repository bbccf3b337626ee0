"""Simulated models: a real HTTP server that speaks the chat completions and embeddings protocols and answers from scripts.

It stands in for models in the demo and in tests, behind the very same client; every answer says that it is simulated.
"""
