"""Prompt sets: the released ones, and those that a team writes or brings."""
