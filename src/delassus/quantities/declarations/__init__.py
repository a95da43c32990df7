"""The declarations, each beside the direct functions that run from it."""
