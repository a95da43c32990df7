"""How wrong a solution is, and what is done about it: the one policy, of direct calls, kernels, rollouts and contact.

1. A relative error for each state, by the pivots that the program has divided by (`pivots`), which costs three
   operations a pivot, or by what the solution misses (`refinement`), which costs two more right-hand sides.
2. `policy`: the bound, and which of the two a kernel takes. `delassus.quantities.estimate` makes estimates of requests,
   and says which method takes the states whose estimate is above the bound.
3. `rank`: how many rows are independent at a state, and where loops are closed (`closed_loops`).
4. `status`: solutions where rows are dependent or inaccurate, and the status that says so.
"""
