"""What several test files reach for behind the public names: moving a room of the library changes this file alone.

Each internal module is imported by one test file at most (`test_architecture.py` counts): its own, or this one.
"""

from delassus import constraints, quantities
from delassus.accuracy.policy import ERROR_BOUND
from delassus.algorithms import dynamics, energy, rnea
from delassus.algorithms.dynamics import HARD_AND_SOFT, ITERATIVE, SOFT, UNCONSTRAINED, pv_early
from delassus.algorithms.dynamics import METHODS as DYNAMICS_ALGORITHMS
from delassus.algorithms.dynamics.constraint_acceleration import wanted_accelerations
from delassus.algorithms.dynamics.popov_vereshchagin import constant_rows
from delassus.algorithms.dynamics.popov_vereshchagin.activation import Conditions
from delassus.algorithms.dynamics.state import NEVER, DynamicsProblem, EliminationOrder
from delassus.algorithms.jacobian import jacobian_columns
from delassus.algorithms.problem import Problem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.api.direct import bind
from delassus.cli import app as cli
from delassus.compiler.evaluator import Evaluated, laid_out, machine
from delassus.compiler.jit import compile as runtime_loops
from delassus.compiler.jit.compile import Bound, compiled, compiled_for, inlined
from delassus.compiler.jit.memory import call_at
from delassus.compiler.machine import ptx as ptx_module
from delassus.compiler.machine.cpu import Host, ObjectCode, host, object_code
from delassus.compiler.passes import simplify as passes
from delassus.compiler.passes.schedule import overlap, reorder, schedule
from delassus.compiler.passes.simplify import optimise, without_calls
from delassus.compiler.program.program import Argument, Program, Result, interpret_program
from delassus.compiler.targets.c import module as c
from delassus.compiler.targets.c.module import c_source, write_c
from delassus.compiler.targets.casadi import casadi_function
from delassus.compiler.targets.llvm import parts as llvm_parts
from delassus.compiler.targets.llvm.module import llvm_module
from delassus.constraints import Goal, check_constraints
from delassus.constraints.joint_rows import BoundedJoint
from delassus.contact.formulations import FORMULATIONS
from delassus.formats import features
from delassus.formats import names as robot_names
from delassus.formats.mujoco.model import (
    acceleration_from_mujoco,
    acceleration_to_mujoco,
    configuration_from_mujoco,
    configuration_to_mujoco,
    tree_from_mujoco,
    velocity_from_mujoco,
    velocity_map_from_mujoco,
    velocity_to_mujoco,
)
from delassus.formats.names import example_robot_files
from delassus.formats.pinocchio import tree_from_pinocchio, tree_to_pinocchio
from delassus.model import kinematics
from delassus.model.actuators import Actuator
from delassus.model.description import RawJoint, RawLink
from delassus.model.edit.build import build_tree
from delassus.model.inertia import about_centre, inertia_defects, move_inertia, nearest_inertia, spatial_inertia
from delassus.model.kinematics import frame_pose, joint_displacement, world_poses
from delassus.model.tree import WORLD
from delassus.quantities import QUANTITIES, bound_request, evaluate, find_quantity
from delassus.quantities.bound_request import elimination_order, symbolic_request
from delassus.quantities.declarations.contact import OPERATIONAL_SPACE_COMPLIANCE
from delassus.quantities.declarations.dynamics import DYNAMICS
from delassus.quantities.declarations.osim import DELASSUS
from delassus.quantities.declarations.osim import METHODS as OSIM_ALGORITHMS
from delassus.quantities.estimate import rcond_by_pivots, usual_states
from delassus.quantities.pipeline import cut, file_header, make_program
from delassus.quantities.planner.plan import CUT, _plan, plan
from delassus.quantities.request import request
from delassus.quantities.trace import trace, trace_request
from delassus.runtime import calls, code, fastcall, threads
from delassus.runtime.code import key_of
from delassus.runtime.cuda import driver
from delassus.runtime.fallback import exact_steps, solve_states
from delassus.runtime.rollouts.sub_steps import StepsAgain
from delassus.scenes import boxes, pendulum
from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint, scene_fingerprint
from delassus.simulate.recording import ARRAYS, Recorder, Recording
from delassus.solvers.registry import SOLVERS, ImpulseSolver
from delassus.solvers.results import SOLVED
from delassus.spatial import joint_kinds
from delassus.spatial.joints import PER_DOF, Joint
from delassus.spatial.numpy_ops import NumpyOps
from delassus.spatial.rotations import (
    exact_quarter_turns,
    matrix_to_quaternion,
    quaternion_to_matrix,
    rotation_about,
    rotation_between,
    rotation_from_rpy,
    rpy_from_rotation,
    skew,
)
from delassus.spatial.trace import batched_calls, sincos
from delassus.spatial.trace.batched_calls import CallingTraceOps
from delassus.spatial.trace.graph import Builder, Graph
from delassus.spatial.trace.interpret import SEMANTICS, interpret, interpret_trace
from delassus.spatial.trace.operations import COMMUTATIVE, LEAVES, Op, arity
from delassus.spatial.trace.trace_ops import TraceOps
