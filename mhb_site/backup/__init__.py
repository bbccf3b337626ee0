"""Backup of a whole site into a folder, and its restoration into either kind of database."""
