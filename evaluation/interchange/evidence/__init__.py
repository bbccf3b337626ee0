"""What a bundle brings beside answers and verdicts, so that what a report says of judges can be worked out again."""
