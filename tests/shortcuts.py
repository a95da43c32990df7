"""Shortcuts and guards of the library, what drops or weakens each, and a test that fails then.

A table: a file, below it tests, and below these what stands once in the file, and what to put in its place, behind an
arrow or nothing; `·` is a space at an end of it, `↵` a new line. ``mutations.py --shortcuts`` does that, one by one.
Who adds a shortcut adds what breaks it here.
"""

TABLE = r"""
accuracy/closed_loops.py
  test_closed_loops.py::test_rows_are_dependent_where_loops_are_closed_or_everywhere
    closed is not None and closed[0] < closed[1] → closed is not None and closed[0] <= closed[1]
    (closed is not None and closed[0] < closed[1]) or· →
    ·or are_always_dependent(tree, constraints) →
  test_ground_loops.py::test_a_row_that_nothing_moves_counts_as_none_where_the_root_floats
    _ranks_at(tree, holding, q, ROUND_OFF) → _ranks_at(tree, holding, q, UNMOVED)
  test_clusters.py::test_motors_of_loops_take_the_method_of_fewest_operations
    all(c.top(tree) == c.as_loop.top(tree) for c in constraints) and not → not
    ·and not lose_rank_when_closed(tree, constraints) →
accuracy/pivots.py
  test_error_estimates.py::test_estimates_by_pivots_do_not_depend_on_the_size_of_rows
    (rows.start <= graph.a) → (rows.start < graph.a)
  test_clusters.py::test_random_loops[1]
    np.isin(kind, on) | (not on) → kind >= 0
accuracy/refinement.py
  test_compiled_dynamics.py::test_where_a_loop_stands_its_rows_lose_digits
    if len(ends) > 1: → if False:
    if len(ends) > 1: → if True:
    apart -= set() if end.top == WORLD else set(problem.tree.support(end.top)) → pass
algorithms/clusters/aba.py
  test_clusters.py::test_random_loops[0]
    apart += column(ops, own.position(At(problem, k, motion))) → apart += [0.0]
  test_clusters.py::test_random_loops[1]
    rates += column(ops, other.velocity(At(loops.problem, k, loops))) → rates += [0.0]
algorithms/clusters/articulated.py
  test_clusters.py::test_random_loops[1]
    laden = self._tree.supporting_links(self._laden.intersection(cluster.links)) → laden = frozenset()
  test_clusters.py::test_delassus_matrices_of_closed_mechanisms[1]
    return rigid - R @ self.D.solve(ops.transpose(self.U)) → return rigid
algorithms/clusters/crba.py
  test_clusters.py::test_random_loops[1]
    if joint.armature.any() else own → if False else own
algorithms/clusters/efpa.py
  test_clusters.py::test_delassus_matrices_of_closed_mechanisms[1]
    if c in body.tied: → if False:
algorithms/clusters/grouping.py
  test_clusters.py::test_random_loops[0]
    links, numbers = links | other[0], numbers + other[1] → links, numbers = links | other[0], numbers
    [tree.parents[i] for i in joints] or [constraint.top(tree)] → [*joints] or [constraint.top(tree)]
algorithms/clusters/pvr.py
  test_clusters.py::test_delassus_matrices_of_closed_mechanisms[1]
    return own if link == WORLD else [*own, link] → return own
algorithms/clusters/transmission.py
  test_clusters.py::test_rows_that_lose_rank_where_loops_are_closed
    return [x for row in self._ops.entries(left) for x in row] → return []
    return column(self._ops, self._left(self._over @ self._ops.take(rows, self.rows, None))) → return []
  test_clusters.py::test_random_loops[1]
    sizes if by_size or len(sizes) == len(self.bound) else [1.0] * len(sizes) → sizes
algorithms/contact/problem.py
  test_contact_step.py::test_residuals_and_impulses_solve_the_cone_problem[nsgs]
    return ops.maximum(x, -x) → return x
algorithms/dynamics/proximal.py
  test_ground_loops.py::test_windows_in_a_row_stay_in_machine_code_at_rest_and_where_they_are_flat
    NO_MOTION / self._heaviest → 0.0
algorithms/dynamics/popov_vereshchagin/constant_rows.py
  test_joint_kinds.py::test_screws_are_slides_that_hinges_drive
    ·or joint.pitch →
algorithms/dynamics/derivatives/curvature.py
  test_second_derivatives.py::test_inverse_dynamics[1]
    + along @ psi + → +
algorithms/dynamics/derivatives/row_curvature.py
  test_second_derivatives.py::test_other_constraints
    scaled_matrix(ops, 0.5, x @ S) → None
algorithms/dynamics/derivatives/rows.py
  test_spring_forces.py::test_first_derivatives_of_dynamics[0]
    P @ rates.S[j] + Q @ rates.psi[j] for → P @ rates.S[j] for
    of_v = {(0, j): Q @ rates.S[j] for j, (_, Q) in moved.items()} → of_v = dict[tuple[int, int], Matrix]()
algorithms/dynamics/derivatives/second.py
  test_spring_forces.py::test_second_derivatives[False]
    total = sum(spring_curvature(rates, rest), total) → pass
algorithms/sensors.py
  test_sensors.py::test_cutoffs_limit_numbers_and_leave_directions_alone
    ·or sensor.kind in UNLIMITED →
compiler/machine/cpu.py
  test_threads.py::test_calls_take_no_lock_of_llvm
    ········weakref.finalize(self, _ENDED.append, self._engine).atexit = False↵ →
compiler/passes/allocate.py
  test_allocate.py::test_steps_compute_the_graph
    ············for x in self.next_use:↵                self._store(x)↵ →
compiler/passes/order.py
  test_loops.py::test_the_interpreter_does_what_the_algorithm_does_at_once
    and stage[k] < only: → and stage[k] > only:
    reader[x] = own if reader[x] == UNREAD or reader[x] == own else SEVERAL → reader[x] = own
  test_passes.py::test_schedule_of_a_tree_is_the_best_there_is
    need[stack[at - 1]] > need[x] → need[stack[at - 1]] < need[x]
compiler/passes/rebuild.py
  test_passes.py::test_division_by_a_constant
    if HAS_RECIPROCAL[0] <= size and size <= HAS_RECIPROCAL[1]: → if True:
  test_passes.py::test_quotients_by_one_number_share_its_reciprocal
    abs(built.value[x]) == 1.0 → abs(built.value[x]) >= 1.0
    return reciprocal if built.value[x] > 0.0 else negated(built, reciprocal) → return reciprocal
  test_passes.py::test_signs_are_folded
    y, minus_y = built.a[y], not minus_y → y, minus_y = built.a[y], True
  test_passes.py::test_negations_left_are_absorbed_where_that_is_free
    uses[k] != 1 or level == DEPTH → level == DEPTH
compiler/passes/scans.py
  test_error_estimates.py::test_compiled_loops_estimate_as_python_does
    for k in range(nodes.op.shape[0]):  # leaves → for k in range(0):  # leaves
  test_elimination_order.py::test_pivots_that_meet_in_a_product_are_a_chain
    if nodes.op[k] == MULTIPLY or nodes.op[k] == DIVIDE: → if False:
compiler/passes/simplify.py
  test_loops.py::test_what_random_calls_make_without_them[6]
    ········read[np.array(some.operands)] = True↵ → ········pass↵
    .any(axis=1)) → .all(axis=1))
  test_passes.py::test_products_are_fused_with_sums
    is_product[kept] = False → is_product[kept] = True
    (first[user] == product) | ~is_single[first[user]] → first[user] == product
  test_passes.py::test_products_of_many_uses_stay
    (uses[:-1] <= MOST_USES) → (uses[:-1] <= MOST_USES + 1)
  test_passes.py::test_negations_left_are_absorbed_where_that_is_free
    uses = np.bincount(graph.flat_outputs(), minlength=len(graph)) → uses = np.zeros(len(graph), dtype=np.int64)
compiler/program/batched_calls.py
  test_loops.py::test_one_state_code_of_random_calls
    leaders.setdefault((column - column[0]).tobytes(), k) → leaders.setdefault(b'', k)
    return [self.places[k] for k in columns] == [(base, distance + k) for k in range(len(columns))]
      → return self.places[columns[-1]] == (base, distance + len(columns) - 1)
    *([n - lanes] if n % lanes else []) → *([n - lanes] if n % lanes > 1 else [])
    inputs = [columns[:1] if len({rows.places[k] for k in columns}) == 1 else columns for columns in groups]
      → inputs = [columns[:1] if len({rows.places[k] for k in columns}) <= 2 else columns for columns in groups]
    any(self._nodes[k][0] != op for k in group) or ( → (
    op != Op.INPUT and not is_one → False
  test_loops.py::test_machine_code[tiles-1-double]
    leaders.setdefault((column - column[0]).tobytes(), k) → leaders.setdefault((column[-1] - column[0]).tobytes(), k)
  test_loops.py::test_machine_code[calls_in_passes-1-double]
    ········if len(outputs) % lanes:↵            continue↵ →
formats/sdf/colliders.py
  test_sdf.py::test_groups_of_drake_keep_links_apart
    pending += new → pass
    frozenset((a, b)) in apart or (model_a → (model_a
    ·and not (a_stands and b_stands) →
formats/sdf/inertial.py
  test_sdf.py::test_inertia_of_collisions
    (R @ moments @ R.T) → moments
    R @ centre + p → centre + p
    total * (mass / total[0, 0]) → total
formats/sdf/joints.py
  test_sdf.py::test_what_is_written_is_read[4]
    np.asarray(R @ own[0].T) → R
formats/sdf/write.py
  test_sdf.py::test_loops_that_are_open_or_carried_by_nothing_are_listed
    case "spherical", () if meets: → case "spherical", ():
    elif not kind or child is None: → elif not kind:
  test_sdf.py::test_what_is_written_is_read[2]
    [turn @ axis, second] → [axis, second]
  test_writers.py::test_frames_of_the_world_stay[to_sdf]
    at.kind is FIXED and at.parent != "world" → at.kind is FIXED
quantities/bound_request.py
  test_tendons.py::test_limits_only_push_back[0]
    ops.select(acts, over, over / SLACK) → over
  test_ground_loops.py::test_loops_on_the_ground_and_between_links_are_the_same[bennett-auto-rk4-0.004-4]
    partial(proximal, weight=GAPING_WEIGHT) → proximal
  test_spring_forces.py::test_first_derivatives_of_steps[2-semi-implicit]
    (self.problem() if problem is None else problem).without_springs() → self.problem() if problem is None else problem
  test_spring_forces.py::test_steps_follow_the_law_of_steps_with_contacts[0]
    over * (d + b / h) → over * d
    over = 1.0 / a → over = 0.5 / a
quantities/checks.py
  test_spring_forces.py::test_springs_of_a_file_are_mujocos[0]
    acting += own.values() if of_forces else [] → pass
quantities/request.py
  test_spring_forces.py::test_second_derivatives[False]
    ·and "dt" in quantity.inputs and → ·and "integrator" in quantity.options and
  test_clusters.py::test_costs_are_linear_in_the_number_of_loops[transmission]
    checked = tuple(c if c.top(tree) == c.as_loop.top(tree) else c.as_loop for c in checked) → pass
quantities/pipeline.py
  test_error_estimates.py::test_kernels_of_a_robot_of_bad_inertias
    if dtype and asked.solves and not asked.error_dtype and are_no_guide( → if False and are_no_guide(
compiler/program/sent_rows.py
  test_second_derivatives.py::test_rows_are_sent_as_they_are_made[floating]
    np.arange(len(targets)) * len(stage.calls) // len(targets) → np.arange(len(targets)) % len(stage.calls)
compiler/program/stages.py
  test_loops.py::test_the_interpreter_does_what_the_algorithm_does_at_once
    if is_made and n_starts[start] == 1 and last_read[start] <= begin: → if is_made and last_read[start] <= begin:
    if is_made and n_starts[start] == 1 and last_read[start] <= begin: → if is_made and n_starts[start] == 1:
    alone = (reader[read] == UNREAD) | (reader[read] == only) → alone = reader[read] < 9
    np.where(self._is_operation[nodes] | (self.known[nodes] >= 0), nodes, n + nodes) → nodes
quantities/trace.py
  test_compiled_dynamics.py::test_sums_of_blocks_say_whether_results_are_finite
    ············nodes.add(total)↵ →
    if nodes.issuperset(of_total): → if True:
  test_dynamics_derivatives.py::test_kernels_where_rows_are_dependent
    if output.symmetric: → if rows == columns:
compiler/program/workspace_slots.py
  test_loops.py::test_the_interpreter_does_what_the_algorithm_does_at_once
    last_read[made] = last_read[read] = k → last_read[read] = k
    ····last_read[read_by(last, ())] = never↵ →
    taken = np.flatnonzero(free_from > stage) → taken = np.flatnonzero(free_from > stage + 1)
    np.argmax(room >= n) → np.argmax(room >= n - 1)
    unless=None if stage.unless is None else int(place[stage.unless]) → unless=stage.unless
    free_from[at : at + size] = 1 + ends[k] → free_from[at : at + size] = ends[k]
compiler/targets/c/module.py
  test_loops.py::test_c
    if uses[k] == (k not in stored) and not goals and → if uses[k] <= 2 and not goals and
    own > binds or (own == binds and k == 0 and binds in (SUM, PRODUCT)) → own >= binds
    own > binds or (own == binds and k == 0 and binds in (SUM, PRODUCT)) → own > binds or (own == binds and k == 0)
    && {self.copies[-1][0]} == 0; ++k → ; ++k
    made = [f"r[{k}]" for k in range(len(goals))] if stage.is_loop else goals → made = goals
    (slot < 0 or slot not in anew) and self._is_shorter → self._is_shorter
    if uses[k] == (k not in stored) and not goals and → if uses[k] == (k not in stored) and
compiler/targets/llvm/module.py
  test_loops.py::test_sines_of_one_state
    some == [*range(some[0], some[0] + SIMD_LANES)] → some[-1] - some[0] == SIMD_LANES - 1
    are_neighbours and self.inputs[some[0]][0] == self.inputs[some[-1]][0] → are_neighbours
    are_neighbours and self.inputs[some[0]][0] == self.inputs[some[-1]][0]
      → self.inputs[some[0]][0] == self.inputs[some[-1]][0]
    some == [*range(some[0], some[0] + SIMD_LANES)] → some[-1] - some[0] == len(some) - 1
  test_loops.py::test_results_that_are_leaves
    ········if n < SIMD_LANES:↵ → ········if n <= 1:↵
    if n % SIMD_LANES:  # the last → if n % SIMD_LANES > 1:  # the last
    n // SIMD_LANES * SIMD_LANES, SIMD_LANES) as at → n // SIMD_LANES * SIMD_LANES - SIMD_LANES, SIMD_LANES) as at
    before = (r, position - 1, origin, distance - (origin[0] == "%")) → before = (r, position - 1, origin, distance)
    before = (r, position - 1, origin, distance - (origin[0] == "%"))
      → before = (r, runs[-1][-1][1] if runs else 0, origin, distance - (origin[0] == "%"))
    if self.last.nodes[k][0] == Op.CONSTANT} - constants → if self.last.nodes[k][0] == Op.CONSTANT and not constants}
  test_loops.py::test_machine_code[tiles-2-float]
    is_short = n_bases <= MOST_BASES and all(section.rows is None for section in sections)
      → is_short = n_bases <= MOST_BASES
    is_short = n_bases <= MOST_BASES and all(section.rows is None for section in sections) → is_short = True
  test_loops.py::test_machine_code[sines_of_results-1-double]
    if k is not None and k < program.n_inputs → if k is not None
compiler/targets/llvm/parts.py
  test_loops.py::test_machine_code[tiles-1-double]
    wanted = columns[:1] if section.rows.are_neighbours(columns) else columns → wanted = columns[:1]
    if base not in self._bases: → if not self._bases:
  test_loops.py::test_machine_code[tiles-2-float]
    if len(columns) < section.lanes: → if len(columns) == 1:
  test_loops.py::test_machine_code[two_loops-2-float]
    icmp eq i{text.lanes} {whole}, -1 → icmp ne i{text.lanes} {whole}, 0
  test_loops.py::test_workspaces_hold_what_waits_in_them
    self.first_output = self.first_apart + max(len(s.targets) if s.apart else 0 for s in sections)
      → self.first_output = self.first_apart
    s.allocation.n_slots * s.lanes for s → s.allocation.n_slots for s
  test_loops.py::test_machine_code[sines_of_results-1-double]
    is_known = op in (Op.SIN, Op.COS) and self.rows is None and self.nodes[x][0] == Op.INPUT
      → is_known = op in (Op.SIN, Op.COS) and self.nodes[x][0] == Op.INPUT
compiler/targets/llvm/rows.py
  test_second_derivatives.py::test_batches_write_every_number
    ····firsts = tiles_of(len(key), lanes)↵ → ····firsts = tiles_of(len(key) // lanes * lanes, lanes)↵
  test_loops.py::test_results_that_are_leaves
    ([size - lanes] if size % lanes else []) → ([size - lanes] if size % lanes > 1 else [])
  test_loops.py::test_arrays_and_batches_of_every_size
    if size == 1:  # numbers of states are neighbours → if size == 2:
    ····if size < lanes:↵        for k, source → ····if size < lanes - 1:↵        for k, source
    ····if size < lanes:↵        for k, target → ····if size < lanes - 1:↵        for k, target
constraints/between_frames.py
  test_constraint_kinds.py::test_rates_of_velocities_between_moving_points[local]
    return self.drift(at) - _linear(ops → return self.drift(at) + _linear(ops
  test_plan.py::test_bases_are_not_shifted_where_the_world_or_another_base_matters
    return not (on_world or self.axes == "world" or self.angular_axes == "world")
      → return not (on_world or self.angular_axes == "world")
  test_pairs.py::test_pairs_are_the_joints_that_they_say[cylindrical-False]
    if self._may_part: → if False:
algorithms/dynamics/state.py
  test_spring_forces.py::test_forces_are_gradients_of_energies_and_damp[0]
    -(k * x + d * u) → -(k * x)
    (*self.wrenches.items(), *self._pulls()) → self.wrenches.items()
algorithms/energy.py
  test_spring_forces.py::test_forces_are_gradients_of_energies_and_damp[0]
    for _, each in motion.stretched: → for _, each in ():
constraints/joint_rows.py
  test_lock.py::test_what_goes_with_a_joint_is_named
    rest -= measured * sum( → rest += measured * sum(
    period == np.inf and abs(rest) > HOLDS → False
constraints/pairs.py
  test_pairs.py::test_pairs_are_the_joints_that_they_say[universal-False]
    own @ other - along @ square → own @ other * 0.0 - along @ square
constraints/rows.py
  test_pairs.py::test_rows_between_links_are_those_of_welds_and_come_with_calls
    second, K = None, second → second, K = second, second
constraints/spring.py
  test_tendons.py::test_limits_only_push_back[0]
    ops.less(0.0, x * (k * x + d * u)) → ops.less(0.0, k * x * x)
  test_bushings.py::test_energies_and_steps_by_their_gradients[0]
    return ops.transpose(changes) → return changes
    rates = np.stack([np.r_[k, 0.0 * d], → rates = np.stack([np.r_[k, k],
  test_bushings.py::test_kernels_go_as_scenes_do_and_have_derivatives[0]
    + _turning_rate(ops, turn, A @ w, w) → + 0.0 * _turning_rate(ops, turn, A @ w, w)
  test_lock.py::test_what_goes_with_a_joint_is_named
    Distance.without(self.at_rest(tree, tree.neutral()), tree, other, values)
      → Distance.without(self, tree, other, values)
constraints/shapes/convex_patch.py
  test_shape_pairs.py::test_hulls_that_are_boxes_have_the_contacts_of_boxes
    out.append((n, corners[order])) → out.append((n, corners[order - 1]))
constraints/shapes/lowest_points.py
  test_shape_pairs.py::test_vertices_of_hulls_are_one_contact_each
    twice * size if k else None → None
formats/usd/joints.py
  test_usd.py::test_joints_are_where_openusd_has_them[0-1.0-Z]
    R @ R1.T if last else R, → R,
    R1 @ axis if last else axis, → axis,
  test_usd.py::test_generic_joints_leave_free_what_no_limit_locks
    [:: -1 if is_reversed else 1] → [::1]
formats/usd/masses.py
  test_usd.py::test_joints_are_where_openusd_has_them[0-1.0-Z]
    com * body.scale * prims.length → com * prims.length
    own @ np.diag(moments * unit) @ own.T → np.diag(moments * unit)
  test_usd.py::test_masses_are_those_that_openusd_computes
    shape = shape * (mass / total) → pass
formats/usd/prims.py
  test_usd.py::test_a_cart_in_centimetres_whose_y_axis_is_up
    self.up = Y_UP if UsdGeom.GetStageUpAxis(stage) == "Y" else np.eye(3) → self.up = np.eye(3)
    p = np.zeros(3) if position is None else position * self.length → p = np.zeros(3) if position is None else position
  test_usd.py::test_what_is_written_is_read[1]
    exact = _floats(twin) → exact = array
formats/usd/stage.py
  test_usd.py::test_stages_of_files_elsewhere_are_refused
    if not file.is_relative_to(folder): → if False:
    > most: → < 0.0:
contact/changes/contacts.py
  test_scene_derivatives.py::test_derivatives_of_what_turns
    ·+ pitches[dofs][..., None] * e →
contact/collision/convex.py
  test_collision.py::test_contacts_turn_with_the_world
    if is_curved(a) or is_curved(b) or not np.isrealobj(gap): → if is_curved(a) or not np.isrealobj(gap):
    if is_curved(a) or is_curved(b) or not np.isrealobj(gap): → if is_curved(b) or not np.isrealobj(gap):
    if depth < -most:↵        return m → if depth < -most - 1.0:↵        return m
  test_collision.py::test_patches_do_not_come_and_go[1e-06]
    (a.shape[SIZE] if a.shape[KIND] <= CAPSULE else 0.0) + ( → 0.0 + (
  test_collision.py::test_ridges_that_lie_along_each_other_touch_at_the_ends_of_what_they_share
    if 0.0 < part < 1.0 and dot(x, x) < best: → if 0.0 < part < 1.0:
  test_collision.py::test_patches_of_flat_faces
    n if dot(n, d) >= 0 else scaled(-1.0, n) → n
    if end == m or max_depth(out, m, end) < depth - EXACT * size: → if True:
  test_terrain.py::test_places_of_contacts_are_on_a_triangle[box]
    if longer <= gap + ROUND_OFF * size: → if longer <= gap + 1e-3 * size:
  test_terrain.py::test_places_of_contacts_are_on_a_triangle[capsule]
    out = max(NEAR * size - gap, 0.0) → out = NEAR * size - gap
contact/collision/detector.py
  test_collision.py::test_contacts_are_of_the_pairs_that_may_touch_in_their_order[1]
    ············self.space, self.found = workspace(self.arrays, 2 * int(self.space.counts[0]))
      ↵            self._search = None
      ↵
      → ············self.space, self.found = workspace(self.arrays, 2 * int(self.space.counts[0]))↵
  test_collision.py::test_bad_input_is_refused
    if count >= INVALID_POSE: → if count > INVALID_POSE:
  test_collision.py::test_contacts_are_of_the_pairs_that_may_touch_in_their_order[None]
    pairs[fixed] = pairs[fixed][:, ::-1] → pass
  test_collision.py::test_contacts_start_at_the_tolerance
    gap = max(gap, check_number("reach", float(given), "A length in metres.", above=False))
      → gap = check_number("reach", float(given), "A length in metres.", above=False)
  test_collision.py::test_gaps_of_links
    ············self._search.set(GAP, gap)↵ →
  test_collision.py::test_scenes_with_little_in_them
    if finite.size else 1.0 → if True else 1.0
contact/collision/half_spaces.py
  test_collision.py::test_contacts_start_at_the_tolerance
    write(out, m, along(x, -0.5 * h, n), n, -h) if h <= most else m → write(out, m, along(x, -0.5 * h, n), n, -h)
  test_collision.py::test_faces_of_many_corners_have_few_contacts
    if reach < height - least: → if reach < height:
    if n <= DIRECTIONS + 1:↵        return n → if n <= DIRECTIONS + 2:↵        return n
    if points[deepest, 3] > most + EXACT * size: → if points[deepest, 3] > most:
    if reach > best + AS_LOW * size: → if reach > best:
    if count <= MOST_POINTS: → if count <= MOST_POINTS + 1:
  test_collision.py::test_contacts_span_the_support_polygon
    DIRECTIONS = MOST_CONTACTS - 1 → DIRECTIONS = MOST_POINTS - 1
  test_collision.py::test_surfaces_are_not_filled
    twice = twice or work[j, 0] == lowest → twice = False
contact/collision/narrow_phase.py
  test_collision.py::test_bad_input_is_refused
    finite += 0.0 * reach[i] → finite += 0.0
    finite += 0.0 * poses[i, r, c] → finite += 0.0
  test_collision.py::test_contact_sets_are_complete
    elif abs(n[1]) <= abs(n[2]): → elif True:
  test_collision.py::test_degenerate_places_have_a_contact
    if abs(n[0]) <= abs(n[1]) and abs(n[0]) <= abs(n[2]): → if True:
    if twice > 0.0 and last[0] <= most: → if last[0] <= most:
  test_collision.py::test_gaps_of_links
    if space.counts[1] == 0: → if space.counts[1] == 0 and space.counts[0] == 0:
  test_collision.py::test_patches_of_flat_faces
    ····if turned:
      ↵        for r in range(first, m):
      ↵            out[r, 4], out[r, 5], out[r, 6] = -out[r, 4], -out[r, 5], -out[r, 6]
      ↵
      →
  test_simulator.py::test_speeds_that_cannot_be_computed_are_named
    ········if not are_finite(poses, reach):↵            return INVALID_POSE↵        count → ········count
contact/collision/near_pairs.py
  test_collision.py::test_contacts_are_of_the_pairs_that_may_touch_in_their_order[0]
    ····if count <= pairs.shape[0]: → ····if count < pairs.shape[0]:
    ····if count < pairs.shape[0]:↵        pairs[count, 0] → ····if count < pairs.shape[0] - 1:↵        pairs[count, 0]
  test_collision.py::test_contacts_are_of_the_pairs_that_may_touch_in_their_order[None]
    colliders.allowed[i, j] and height <= shapes[j, RADIUS] + 2.0 * space.bounds[j, 6]
      → height <= shapes[j, RADIUS] + 2.0 * space.bounds[j, 6]
    and colliders.allowed[i, j] and shapes[j, KIND] != HALF_SPACE → and shapes[j, KIND] != HALF_SPACE
    if shapes[pairs[k, 0], LINK] < 0:  # the world as the second → if False:
    while p > starts[i] and seconds[p - 1] > j: → while False:
    min(i, j), max(i, j) → i, j
    and colliders.allowed[i, j] and shapes[j, KIND] != HALF_SPACE → and colliders.allowed[i, j] and True
  test_collision.py::test_contacts_start_at_the_tolerance
    if shapes[i, KIND] == HALF_SPACE:↵            for → if False:↵            for
  test_collision.py::test_gaps_of_links
    moved, shift, rotated = int(shapes[i, LINK]), 0.5 * gap, 0.0, 0.0
      → moved, shift, rotated = int(shapes[i, LINK]), 0.0 * gap, 0.0, 0.0
    shapes[i, CORE] * math.sqrt(0.5 * rotated) + reach[link] → shapes[i, CORE] * math.sqrt(0.5 * rotated)
    (2.0 * reach[link] if link >= 0 else 0.0) → 0.0
    0.5 * margin + gap + → 0.5 * margin +
    height <= shapes[j, RADIUS] + 2.0 * space.bounds[j, 6] → height <= shapes[j, RADIUS]
  test_collision.py::test_near_pairs_miss_nothing_and_list_no_others[0]
    colliders.allowed[i, j] and height <= shapes[j, RADIUS] + 2.0 * space.bounds[j, 6] → colliders.allowed[i, j]
  test_collision.py::test_near_pairs_follow_what_only_turns
    shapes[i, CORE] * math.sqrt(0.5 * rotated) + reach[link] → reach[link]
  test_collision.py::test_numbers_of_points_on_a_floor
    if not moved <= space.bounds[i, 6]: → if False:
  test_collision.py::test_patches_of_flat_faces
    if bounds[j, axis] > bounds[i, 3 + axis]:↵                break
      → if bounds[j, axis] > bounds[i, axis]:↵                break
contact/collision/patches.py
  test_collision.py::test_patches_of_flat_faces
    elif kind == CYLINDER and abs(own[2]) > BASE: → elif kind == CYLINDER:
    if min(flat_a, flat_b) > ALIGNED: → if True:
  test_collision.py::test_ridges_that_lie_along_each_other_touch_at_the_ends_of_what_they_share
    if min(flat_a, flat_b) > ALIGNED: → if False:
    ········if count_a > 2:↵            support_edge(of_a, count_a, back)↵ →
    ········if count_b > 2:↵            support_edge(of_b, count_b, n)↵ →
contact/collision/support.py
  test_scene_derivatives.py::test_contacts_that_iterations_find
    return bool(a.shape[KIND] == CYLINDER or a.shape[KIND] == ELLIPSOID) → return bool(a.shape[KIND] == ELLIPSOID)
    (2, x, y) if abs(own[1]) < FLAT else (2, x, z) if abs(own[2]) < FLAT else (1, x, x)
      → (2, x, z) if abs(own[2]) < FLAT else (1, x, x)
    return (2, y, z) if abs(own[2]) < FLAT else (1, y, y) → return (1, y, y)
contact/collision/surfaces.py
  test_collision.py::test_contacts_turn_with_the_world
    n = (-work[4, i, 4], -work[4, i, 5] → n = (-work[4, i, 5], -work[4, i, 5]
    if a.shape[KIND] == SURFACE: → if False:
  test_terrain.py::test_balls_touch_each_face_edge_and_corner_in_whose_cone_they_are
    return dot(beyond, beyond) > 0.0 and dot(own, away) <= IN_CONE * norm(d)
      → return dot(own, away) <= IN_CONE * norm(d)
    return dot(beyond, beyond) > 0.0 and dot(own, away) <= IN_CONE * norm(d) → return dot(beyond, beyond) > 0.0
    if dot(own, row_of(surfaces[SPOKES], r)) > IN_CONE:↵            return False → if False:↵            return False
    if other > same:↵                right → if other > 0.0:↵                right
    - STEEP * (chosen[deepest, 7] - chosen[i, 7]) > worth: → > worth:
  test_terrain.py::test_gaps_over_terrain[box]
    if corner != 1 and v > most - size: → if False:
  test_terrain.py::test_gaps_over_terrain[sphere]
    if corner != 0 and u > most - size: → if False:
    if corner != 2 and w > most - size: → if False:
    has_edges = has_edges or dot(beyond, beyond) > 0.0 → has_edges = False
  test_terrain.py::test_gaps_over_terrain[stone]
    if points[deepest, 3] > most + same: → if False:
  test_terrain.py::test_no_way_out_of_a_surface_is_longer_than_that_over_a_face_beside[box]
    if height > gap:↵            gap, n, is_hidden = height, d, True
      → if False:↵            gap, n, is_hidden = height, d, True
    elif is_hidden and not is_apart:↵            return m → elif False:↵            return m
    if out[i, 7] <= limit: → if True:
    if -most <= depth <= limit and is_over(t, hulls, y, N): → if -most <= depth and is_over(t, hulls, y, N):
  test_terrain.py::test_what_stands_on_a_block_of_triangles_has_each_contact_once[box-4]
    ············if 1.0 - dot(n, N) <= ALIGNED:↵                return m↵ →
  test_terrain.py::test_ground_that_is_flat_or_hardly_curved_is_a_plane[capsule]
    ············else:↵                points[i, 4] = 1.0  # where the outline begins, it ends↵ →
  test_terrain.py::test_surfaces_touch_where_both_face_each_other
    if own < 0 or is_in_cone(a, hulls, surfaces, own, n): → if True:
  test_terrain.py::test_two_surfaces_in_one_mesh_are_two[surface]
    if attempt == 0 and own < 0 and height_over(t, hulls, centre) < 0.0:
      → if attempt == 0 and height_over(t, hulls, centre) < 0.0:
contact/filters.py
  test_collision.py::test_a_fixed_base_is_a_parent_and_the_world_is_not
    apart = bases & (robots == robots[i]) → apart = bases
    if c.startswith(r + SEPARATOR)), key=len → if c.startswith(r + SEPARATOR)), key=lambda r: -len(r)
  test_scene_derivatives.py::test_friction_of_two_colliders[harmonic-mean]
    2.0 * a * b / (a + b) if a + b > 0.0 else 0.0 → 2.0 * a * b / (a + b)
  test_collision.py::test_ignored_pairs
    {collider.name, collider.link} → {collider.name}
    {collider.name, collider.link} → {collider.link}
    (tuple(pair) * 2)[:2] → tuple(pair)
  test_collision.py::test_links_without_mass_are_parts_of_a_joint
    while parent != WORLD and not scene.tree.inertias[parent].any(): → while False:
  test_collision.py::test_parents_and_children_do_not_collide
    if not scene.parents_collide: → if True:
    names], dtype=bool) & (links == WORLD) → names], dtype=bool)
    name != "world" for name in names → True for name in names
  test_collision.py::test_what_is_free_meets_what_its_own_file_fixes_to_the_world
    elif scene.tree.joints[root].kind is not FREE: → elif True:
contact/formulations/elimination.py
  test_formulations.py::test_contacts_at_what_loops_hold_have_no_mobility
    if f.mobility is None else → if True else
    f.mobility, n) → f.mobility)
solvers/linear.py
  test_contact_solvers.py::test_no_contacts_and_contacts_that_cannot_move
    total / omega.size if total > 0.0 else 1.0 → total / omega.size
solvers/mixed.py
  test_contact_solvers.py::test_mixed_problems_that_contradict_themselves
    if not agree:↵        status → if False:↵        status
solvers/islands/newton.py
  test_piles.py::test_heavy_boxes_on_light_ones_are_solved
    if rows.b[i] >= 0:↵            j, k = graph.local[rows.a[i]]
      → if rows.b[i] > 0:↵            j, k = graph.local[rows.a[i]]
    if D[i, 8] == 0.0 and D[i, 0] == 0.0 and D[i, 4] == 0.0: → if D[i, 0] == 0.0 and D[i, 4] == 0.0:
contact/formulations/bodies.py
  test_formulations.py::test_hinges_hold_nothing_that_joints_move[0]
    own[at] -= d.pitches[k] → own[at] += d.pitches[k]
    on_parents[at] += d.pitches[k] → on_parents[at] += 0.0
contact/sparse/loops.py
  test_springs.py::test_any_gain_on_random_loops[3]
    ·+ 0.5 * bodies.usual[c] * (ROUND_OFF / dt) ** 2 →
contact/sparse/rows.py
  test_joint_kinds.py::test_screws_in_scenes
    if pitch != 0.0: → if False:
contact/sparse/sleep.py
  test_piles.py::test_islands_at_rest_sleep_until_something_touches_them
    ············if may_close(model, data, options, margin, e):↵                wake
      → ············if False:↵                wake
    slow = linear < still * still and size * size * angular < still * still
      → slow = size * size * angular < still * still
  test_piles.py::test_who_sleeps_and_who_wakes_whom
    ················again = True↵ →
    slow = slow and b < n_free → slow = slow and b <= n_free
    slow = linear < still * still and size * size * angular < still * still → slow = linear < still * still
    done[b] = sleep.time[b] + options.dt if slow else 0.0 → done[b] = sleep.time[b] + options.dt
    least = min(least, done[b]) → least = done[b]
contact/sparse/springs.py
  test_tendons.py::test_limits_only_push_back[0]
    acts = 1.0 if x * (k * x + d * u) > 0.0 else 0.0 → acts = 1.0
contact/sparse/step.py
  test_scene_derivatives.py::test_derivatives_of_what_turns
    if links.pitches[k] != 0.0: → if False:
contact/sparse/stepper.py
  test_piles.py::test_islands_at_rest_sleep_until_something_touches_them
    ············touched[: len(b.mass)] |= (s.q != q[b.coordinates])[: 7 * len(b.mass)].reshape(-1, 7).any(axis=1)↵ →
  test_piles.py::test_who_sleeps_and_who_wakes_whom
    ·& (self._sleep.island > 0) →
    ········self._sleep.island[len(blocks.mass) :] = 0  # free bodies alone sleep↵ →
contact/sparse/turning.py
  test_scene_derivatives.py::test_derivatives_of_what_turns
    links.pitches[d] * way → 0.0 * way
model/edit/gimbals.py
  test_gimbals.py::test_screws_are_no_hinges
    ·and joint.subspace_is_axes →
pictures/rasterising.py
  test_video.py::test_rays_meet_the_nearest_of_all_triangles
    if near >= rays.least[y, x] * (1.0 - TIE): → if near >= rays.least[y, x] * 1.5:
    int(max(high + 1.5, 0.0)) → int(max(high, 0.0))
  test_video.py::test_nothing_flickers_where_surfaces_are_the_same
    return later > 0 or near > (old if later == 0 else old * (1.0 + TIE)) → return near > old
pictures/shading.py
  test_video.py::test_floors_look_the_same_beside_what_stands_on_them
    return 1 if x < box[2] else side → return 5
  test_video.py::test_nothing_flickers_where_surfaces_are_the_same
    max(behind * (1.0 - TIE), 0.0) → max(behind * (1.0 + TIE), 0.0)
quantities/planner/elimination.py
  test_singular_loops.py::test_factors_are_taken_where_they_take_less_time
    return TIME_BY_FACTORS * by_factors < least → return TIME_BY_FACTORS * by_factors >= least
  test_elimination_order.py::test_without_loops_nothing_is_chosen
    {f.carrier(tree) for f in c.frames} - {WORLD} → {f.carrier(tree) for f in c.frames}
quantities/planner/frame_placement.py
  test_plan.py::test_placed_frames_of_a_skewed_chain
    rotation = exact_quarter_turns(R[parent].T @ joint.rotation @ R[i])
      → rotation = exact_quarter_turns(joint.rotation @ R[i])
  test_plan.py::test_placed_frames_and_regrouped_inertias_are_the_same_robot
    j.kind.motion_axes == REVOLUTE.motion_axes, j.nv == 1, → j.kind.motion_axes == REVOLUTE.motion_axes, True,
    if free_base and j.kind is FREE and p == WORLD and not (j.armature.any() or j.damping.any())
      → if j.kind is FREE and p == WORLD and not (j.armature.any() or j.damping.any())
  test_plan.py::test_shifted_bases_are_the_same_robot
    if free_base and j.kind is FREE and p == WORLD and not (j.armature.any() or j.damping.any())
      → if free_base and j.kind is FREE and p == WORLD
    if free_base and j.kind is FREE and p == WORLD and not (j.armature.any() or j.damping.any())
      → if free_base and j.kind is FREE and not (j.armature.any() or j.damping.any())
quantities/planner/plan.py
  test_plan.py::test_a_search_ends_where_its_effort_is_spent
    if self._count(root, best ^ {i}) < self._count(root, best):
      → if self._count(best ^ {i}, root) < self._count(root, best):
  test_plan.py::test_a_plan_has_the_root_and_the_payloads_that_it_names
    return _plan(tree, tuple(constraints), tuple(payloads)) → return _plan(tree, tuple(constraints), ())
    if root != 0:↵            link → if False:↵            link
  test_plan.py::test_bases_are_not_shifted_where_the_world_or_another_base_matters
    ·and all(c.is_internal(tree) for c in constraints) →
    tree.parents.count(WORLD) == 1 and· →
quantities/planner/regrouped_inertias.py
  test_plan.py::test_placed_frames_and_regrouped_inertias_are_the_same_robot
    if joint.pitch: → if False:
  test_plan.py::test_links_that_are_light_about_their_joints_get_little
    if np.any(more > MOST_CANCELLED * felt[parent]): → if False:
    ············got[parent] = more↵ →
  test_plan.py::test_placed_frames_and_regrouped_inertias_are_the_same_robot
    if not linear:↵        for axis → if True:↵        for axis
    if len(angular) == 1: → if len(angular) >= 1:
    if not angular: → if True:
    Y[3 + i, 3 + i] = Y[3 + j, 3 + j] = H[3 + i, 3 + i]
      → Y[3 + i, 3 + i] = H[3 + i, 3 + i]; Y[3 + j, 3 + j] = H[3 + j, 3 + j]
    ········if not linear:↵            Y[i, 3 + j] → ········if True:↵            Y[i, 3 + j]
model/edit/lock.py
  test_lock.py::test_what_goes_with_a_joint_is_named
    (c0 + c1 * length, c1, c2) → (c0, c1, c2)
    return all(tree.placement(name).link not in locked → return all(tree.placement(name).link >= 0
    names = lost | shifted if → names = lost if
runtime/arrays.py
  test_kernel.py::test_batches_broadcast_as_numpy_has_it
    return [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in arrays], batch → return arrays, batch
    out.append(x if o == batch else broadcast(x, (*t, *batch, *a.shape)))
      → out.append(x if len(o) == len(batch) else broadcast(x, (*t, *batch, *a.shape)))
    if shape != batch: → if len(shape) > len(batch):
  test_compiled_dynamics.py::test_rollouts_of_every_batch
    if t and len(o) < len(batch): → if t and not o and batch:
    np.repeat(array, each, axis=0) if each > 1 else array → np.repeat(array, each, axis=0) if each > 2 else array
    if axis is None and max(own[:2]) > 1: → if axis is None and min(own[:2]) > 1:
  test_kernel.py::test_bad_calls
    if not good or not out.flags.c_contiguous or not out.flags.writeable: → if not good or not out.flags.writeable:
    ("iub" if argument.flags else "iu") → "iub"
  test_kernel.py::test_the_direct_entry_reads_and_writes_what_lies_as_it_should_and_nothing_else
    any(np.may_share_memory(result, x) for x in (*arrays, *outs[:k]))
      → any(np.may_share_memory(result, x) for x in arrays)
    any(np.may_share_memory(result, x) for x in (*arrays, *outs[:k]))
      → any(np.may_share_memory(result, x) for x in outs[:k])
    if not good or not out.flags.c_contiguous or not out.flags.writeable: → if not good or not out.flags.c_contiguous:
  test_kernel.py::test_the_direct_entry_makes_results_as_the_general_path_does
    -buffer.__array_interface__["data"][0] % LINE) → 0)
runtime/calls.py
  test_singular_loops.py::test_rows_that_lose_rank_at_the_very_state[five_bar-float64]
    (kept.is_dependent and self.wants_rank) → False
  test_singular_loops.py::test_gimbals_near_their_lock[0.0]
    return flagged & ~good → return flagged & False
  test_second_derivatives.py::test_dependent_rows
    if output.needs_independent: → if False:
  test_direct_calls.py::test_programs_on_disk_are_all_that_a_call_needs
    is_known(asked, "dependent", self._is_dependent) → self._is_dependent()
runtime/cuda/arrays.py
  test_arrays.py::test_blocks_are_computed_on_gpus
    more = min(done or size, total - done) → more = done or size
  test_cuda.py::test_calls_keep_the_order_of_streams
    memory.device.follow(stream or LEGACY_STREAM, [memory.stream]) → pass
  test_cuda.py::test_memory_is_free_where_nobody_takes_a_capsule_over
    if stream != NO_WAIT: → if True:
    if stream != NO_WAIT: → if False:
  test_cuda.py::test_memory_without_gaps_is_taken_as_it_lies
    strides is None or _is_contiguous(shape, [s / dtype.itemsize for s in strides]) → strides is None
    [s / dtype.itemsize for s in strides] → list(strides)
    if size != 1 and stride != expected: → if stride != expected:
    return math.prod(shape) == 0 → return False
    return math.prod(shape) == 0 → return True
    (of.data or 0) + of.byte_offset → of.data or 0
    not of.strides or _is_contiguous(shape, of.strides[: of.ndim]) → not of.strides
    not of.strides or _is_contiguous(shape, of.strides[: of.ndim]) → True
  test_cuda.py::test_results_may_be_beside_arguments_but_not_on_them
    self.address < other.address + other.size and other.address < self.address + self.size
      → self.address < other.address + other.size
    self.address < other.address + other.size and other.address < self.address + self.size
      → other.address < self.address + self.size
    self.address < other.address + other.size → self.address <= other.address + other.size
    other.address < self.address + self.size → other.address <= self.address + self.size
runtime/fallback.py
  test_second_derivatives.py::test_dependent_rows
    ·if has_rank] → ]
  test_statuses.py::test_asking_for_a_status_changes_no_number_of_what_is_solved
    taken = left | ( → taken = (
    result[where] = _where(taken, x, result[where]) → result[where] = x
  test_singular_loops.py::test_rows_that_lose_rank_at_the_very_state[five_bar-float64]
    call.error_bound, call.wants_rank = bound, with_status → call.error_bound, call.wants_rank = bound, False
  test_error_estimates.py::test_one_state_is_solved_again_as_in_a_batch
    where = np.nonzero(chosen) if batch else chosen → where = np.nonzero(chosen)
  test_singular_loops.py::test_machine_code_judges_flagged_states[0]
    good = rcond[:n] >= judge.least_rcond → good = rcond[:n] >= 0.0
    result[taken] = x[:n][good] → result[taken] = result[taken]
  test_error_estimates.py::test_bounds_are_arguments
    found[~taken] = DynamicsStatus.SOLVED → found[:] = DynamicsStatus.SOLVED
runtime/fastcall.py
  test_singular_loops.py::test_machine_code_judges_flagged_states[0]
    if not load(place + 8 * (s - first), np.float64) >= least: → if False:
    return not is_judged or _are_judged(record, arrays, n) → return True
    first = s if s + lanes <= n else n - lanes → first = s if s + lanes <= n else 0
    store(load(arrays + 8 * k) + s * size + b, new) → store(load(arrays + 8 * k) + first * size + b, new)
  test_kernel.py::test_the_direct_entry_reads_and_writes_what_lies_as_it_should_and_nothing_else
    if load(x + OBJECT_TYPE) != load(record + ARRAY_TYPE) or load(x + DESCRIPTOR) != load(record + DESCR):
      → if load(x + OBJECT_TYPE) != load(record + ARRAY_TYPE):
    if load(x + OBJECT_TYPE) != load(record + ARRAY_TYPE) or load(x + DESCRIPTOR) != load(record + DESCR):
      → if load(x + DESCRIPTOR) != load(record + DESCR):
    if (load(x + FLAGS, np.int32) & flags) != flags or load(x + DIMENSIONS_COUNT, np.int32) != n_axes + is_batch:
      → if load(x + DIMENSIONS_COUNT, np.int32) != n_axes + is_batch:
    if (load(x + FLAGS, np.int32) & flags) != flags or load(x + DIMENSIONS_COUNT, np.int32) != n_axes + is_batch:
      → if (load(x + FLAGS, np.int32) & flags) != flags:
    ········if load(dimensions) != n:↵            return 0↵ →
    if load(dimensions) != n: → if load(dimensions) < n:
    if load(dimensions + 8 * d) != load(shape + 16 + 8 * d): → if load(dimensions + 8 * d) < load(shape + 16 + 8 * d):
    if kind != load(record + FLOAT_TYPE) and kind != load(record + DOUBLE_TYPE): → if kind == load(record + ARRAY_TYPE):
    if load(ends + 8 * k) > load(arrays + 8 * j) and load(ends + 8 * j) > load(arrays + 8 * k):
      → if load(arrays + 8 * k) == load(arrays + 8 * j):
    if load(ends + 8 * k) > load(arrays + 8 * j) and load(ends + 8 * j) > load(arrays + 8 * k):
      → if load(ends + 8 * k) >= load(arrays + 8 * j) and load(ends + 8 * j) >= load(arrays + 8 * k):
    ········for j in range(k):↵            if load(ends → ········for j in range(n_inputs):↵            if load(ends
    if out != 0 and not _are_apart(arrays, ends, n_inputs, n_arrays): → if False:
    if 0 < k < n_inputs and load(shape + 8) == 0 else 0 → if 0 < k < n_inputs else 0
  test_kernel.py::test_a_call_goes_through_the_entry_or_past_it
    if span == 0:↵        return False → if span == 1:↵        return False
    is_known = is_tuple and load(results + LENGTH) == n_results → is_known = is_tuple
    is_known = is_tuple and load(results + LENGTH) == n_results → is_known = True
    is_known = count == n_inputs↵ → is_known = count >= n_inputs↵
    is_known = load(names + LENGTH) == 1 and load(names + ITEMS) == load(record + OUT)
      → is_known = load(names + LENGTH) == 1
  test_kernel.py::test_the_direct_entry_sees_each_state_that_is_not_solved
    if load(record + HAS_RCOND) != 0 and ill_conditioned( → if False and ill_conditioned(
    rcond + first * item, size, load → rcond, size, load
  test_kernel.py::test_the_direct_entry_is_used_and_declines_the_rest
    if n > load(record + MOST_STATES):↵        return DECLINED
      → if n > load(record + MOST_STATES) + 1000000:↵        return DECLINED
    arguments, flags = out - 8 * n_inputs, WRITEABLE → arguments = out - 8 * n_inputs
  test_kernel.py::test_kernels_of_more_arrays_than_the_direct_entry_has_room_for_have_none
    if not supported() or n_scalars > SCALARS or max( → if not supported() or max(
  test_kernel.py::test_the_direct_entry_makes_results_as_the_general_path_does
    n_scalars += 1↵ → n_scalars = 1↵
runtime/helper.py
  test_helper.py::test_helpers_that_others_have_are_passed_over
    if (mine >> k) % 2 == 0:↵            continue → if (mine >> k) % 2 == 0:↵            break
    not compare_exchange(helper + TAKEN, 0, 1):↵            continue
      → not compare_exchange(helper + TAKEN, 0, 1):↵            break
    ············while load(helper + BUSY) != 0:↵                call_at(load(helper + YIELD))↵ →
  test_helper.py::test_both_threads_together_take_each_state_once
    if last - first - size < unit: → if False:
    if not is_upward and ragged > 0: → if False:
runtime/identify.py
  test_identify.py::test_payload_from_trajectories
    (solved & self._right)[:, None] → solved[:, None]
runtime/libraries/on_jax.py
  test_jax.py::test_arguments_broadcast_by_position_and_by_name
    x.dtype.kind in ("iub" if argument.flags else "iu") or x.weak_type → x.weak_type
runtime/measured.py
  test_identify.py::test_windows_are_trajectories_that_are_cut
    np.where((time < end)[..., None] → np.where((time <= end)[..., None]
    self.controls = controls[time, of] if len(lead) > 1 else controls[time]
      → self.controls = controls[time, begin * 0] if len(lead) > 1 else controls[time]
  test_identify.py::test_what_changes_forces_by_no_regressor_is_found_back
    ············and are_payloads(self.kernel, changes)↵ →
runtime/rollouts/derivatives.py
  test_compiled_dynamics.py::test_derivatives_of_rollouts_in_every_batch
    like = over_time.get(of) if forwards else Moving((), 0) → like = Moving((), 0)
runtime/rollouts/loop.py
  test_ground_loops.py::test_windows_in_a_row_stay_in_machine_code_at_rest_and_where_they_are_flat
    if surer != 0 and _is_flagged → if surer < 0 and _is_flagged
  test_compiled_dynamics.py::test_feedback_in_every_batch
    return self.gains.shape[1:-2] != self.q.shape[1:-1] → return len(self.gains.shape) != len(self.q.shape) + 1
    return self.gains.shape[1:-2] != self.q.shape[1:-1] → return False
    0 if self.is_shared else 2 * n * nv → 2 * n * nv
    if law != 0 and load(law + 48) != 0: → if False:
    found = max(found, _number(bounds + item * j, item))
      ↵            found = min(found, _number(bounds + item * (n + j), item))
      → found = max(found, _number(bounds + item * j, item))
    if np.all(both[0] <= both[1]): → if np.all(both[0] < both[1]):
  test_compiled_dynamics.py::test_derivatives_of_rollouts_in_every_batch
    ········first = min(first, n - size)↵ →
    for j in range((first + size - begin) * width): → for j in range((first + size - begin) * width - 1):
    + begin * width * item↵                part → + first * width * item↵                part
runtime/rollouts/rollout.py
  test_compiled_dynamics.py::test_rollouts_of_every_batch
    if kernel.iterates and not np.all(np.asarray(fixed → if not np.all(np.asarray(fixed
  test_contact_step.py::test_rollouts_are_steps
    np.all(np.asarray(fixed["dt"]) > 0.0) → np.all(np.asarray(fixed["dt"]) >= 0.0)
runtime/rollouts/sub_steps.py
  test_ground_loops.py::test_windows_in_a_row_stay_in_machine_code_at_rest_and_where_they_are_flat
    np.full(self._n, int(tries)) → np.zeros(self._n, dtype=int)
  test_ground_loops.py::test_frames_held_to_the_world_stay_where_they_start[four-bar-hinge-semi-implicit]
    [numbers] for x in self._places → [0 * numbers] for x in self._places
    found[k] = placed → pass
  test_ground_loops.py::test_rows_that_are_dependent_where_a_rollout_starts
    (DynamicsStatus.REDUNDANT, DynamicsStatus.CONFLICTING)) → (DynamicsStatus.REDUNDANT,))
    of_any_rows(kernel, loops is not None and loops.lose_rank) → of_any_rows(kernel)
  test_ground_loops.py::test_feet_of_robots_that_float_are_left_as_they_are
    if FREE not in [ → if True or FREE not in [
  test_contact_step.py::test_a_policy_meets_steps_that_are_not_solved
    ill_conditioned if with_status else ill_conditioned[:0]
      → ill_conditioned if with_status else ill_conditioned[:0].ravel()
  test_ground_loops.py::test_loops_on_the_ground_and_between_links_are_the_same
    found = np.array(call.resolved.status) → found = np.full(len(at[0]), DynamicsStatus.SOLVED)
  test_ground_loops.py::test_machine_code_goes_on_after_a_step
    self._again(reached[at], at), 1 → self._again(reached[at], at), 0
runtime/rollouts/step_tangents.py
  test_identify.py::test_payload_from_trajectories
    solved[unit] and some.right[s] → solved[unit]
    solved[unit] and some.right[s] → some.right[s]
runtime/threads.py
  test_threads.py::test_chunks_are_all_states_once_and_fill_the_lanes
    ····chunk += -chunk % lanes↵ →
    (first, chunk if first < firsts[-1] else n - first) → (first, chunk)
    firsts = range(0, max(n - chunk, 0) + 1, chunk) → firsts = range(0, n, chunk)
  test_threads.py::test_the_work_of_a_call_says_whether_threads_are_worth_it
    ········if operations >= ENOUGH_FOR_THREADS:↵ → ········if True:↵
simulate/ilqr.py
  test_ilqr.py::test_second_order_converges_quadratically
    else min(EASIER, plan.regularisation) → else EASIER
    > FAR * plan.cost: → > -1.0:
simulate/trajectory.py
  test_ilqr.py::test_second_order_converges_quadratically
    LINEAR * float → 1e9 * float
    np.flatnonzero(np.abs(mixed - own - straight) → np.flatnonzero(0.0 * np.abs(mixed - own - straight)
  test_ilqr.py::test_second_order_over_constraints_and_controls[tau-given0]
    pairs = 0.5 * → pairs = 0.0 *
    out[..., j, i] = →
    H = H + with_all.swapaxes(-1, -2) @ own @ with_all → pass
"""


def _text(encoded: str) -> str:
    return encoded.replace("·", " ").replace("↵", "\n")


SHORTCUTS: dict[str, dict[str, list[tuple[str, str]]]] = {}
"""Pairs of texts by file and test.pictures/drawing.py
  test_viewer.py::test_worlds_stand_side_by_side_and_are_in_view
    rotations[links], positions[links] → rotations[links[::-1]], positions[links]
quantities/planner/methods.py
  test_clusters.py::test_loops_in_a_plane_are_solved_by_clusters
    is_hard and not is_step and is_quicker → is_hard and is_quicker
runtime/fallback.py
  test_clusters.py::test_motors_of_loops_take_the_method_of_fewest_operations
    asked = replace(asked, method="orthogonal") → pass
"""

for _line in TABLE.replace("\n      →", " →").replace("\n      ↵", "↵").strip().splitlines():
    _indent, _line = len(_line) - len(_line.lstrip()), _line.strip()
    if _indent == 0:
        _tests = SHORTCUTS[_line] = {}
    elif _indent == 2:
        _faults = _tests[_line] = list[tuple[str, str]]()
    else:
        _before, _after = f"{_line} ".split(" → ")
        _faults.append((_text(_before), _text(_after.rstrip())))
