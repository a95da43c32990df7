"""A ball that bounces: a scene in code, a recording, what it says of energy, and a checkpoint that goes on exactly."""

import tempfile
from pathlib import Path

import numpy as np

import delassus as ds
from delassus.contact import Collider, HalfSpace, Sphere
from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint
from delassus.simulate.recording import Recorder, Recording

shape, restitution = Sphere(0.1), 0.7
ball = ds.mechanisms.free_body(1.0, shape.inertia(1.0))
floor = Collider("world", HalfSpace(), restitution=restitution)
scene = ds.Scene(ball, [Collider("body", shape, restitution=restitution), floor])

sim = ds.Simulator(scene, q0=[0, 0, 1.1, 0, 0, 0, 1], dt=1e-4)
recording = sim.run(0.8, record=Recorder())
height = recording.q[:, 2] - shape.radius
impact = int(np.argmax(recording.contact_counts > 0))
print(
    f"falls from {height[0]:.3f} m, touches at {recording.time[impact]:.4f} s, rises to {height[impact:].max():.4f} m"
)
print(f"energy {recording.energy[0]:.3f} J → {recording.energy[-1]:.3f} J")
assert np.isclose(height[impact:].max(), restitution**2, atol=2e-3)

with tempfile.TemporaryDirectory() as folder:
    path = recording.save(Path(folder) / "ball.npz")
    assert np.array_equal(Recording.load(path).q, recording.q)
    again = load_checkpoint(scene, save_checkpoint(sim, Path(folder) / "half.npz"))
for other in (sim, again):
    other.run(0.2)
assert np.array_equal(again.q, sim.q)
print(f"a checkpoint goes on to the last bit, up to {again.time:g} s")
