"""How a record of each kind becomes pairs of statements, one module a task."""
