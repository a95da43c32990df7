"""How wrong a solution is, and what is done about it: the one policy, of direct calls, kernels, rollouts and contact.

1. A relative error for each state, by the pivots that the program has divided by (`pivots`), which costs three
   operations a pivot, or by what the solution misses (`refinement`), which costs two more right-hand sides.
2. `policy`: the bound, and which of the two a kernel takes. `delassus.quantities.estimate` makes estimates of requests.
3. `rank`: how many rows are independent at a state, and where loops are closed (`closed_loops`).
4. `status`: solutions where rows are dependent, other ones where the estimate is above the bound, and the status of
   each state. States that a kernel does not solve come here, too (`delassus.runtime.fallback`).
"""
