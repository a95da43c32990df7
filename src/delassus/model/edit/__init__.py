"""Trees made of parts of robots, and trees made of others: joined, rooted elsewhere, with balls for gimbals."""
