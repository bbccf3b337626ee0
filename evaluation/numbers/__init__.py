"""Verdicts as one frame, and every number that follows from it: plain Python, numpy and polars.

`frame.py` says how to use the frame. Nothing here knows Django: `mhb-check` runs the same modules.
"""
