"""What operators see from outside: probes, metrics, and logs that hold no patient's text."""
