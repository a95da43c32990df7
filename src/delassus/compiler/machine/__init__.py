"""Machine code for this processor, and its cache on disk."""
