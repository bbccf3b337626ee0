"""Programs that are part of an export.

Only data here: the tools that run them are not installed with MHB.
"""
