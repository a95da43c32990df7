"""Other libraries at the same states: calls to time and answers to compare, none where they are not installed."""
