"""What runs in fewest operations: order, cuts and root of the Delassus matrix, and where body frames sit."""
