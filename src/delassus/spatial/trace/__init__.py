"""Operations on symbols: a graph of what was computed, and its values."""
