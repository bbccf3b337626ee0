"""Checks bundles of runs and releases of MHB."""
