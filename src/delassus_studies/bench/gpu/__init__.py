"""``delassus bench gpu``: kernels on a GPU, checked and timed; without one, what is predicted of them."""
