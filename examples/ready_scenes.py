"""Ready-made scenes: two arms lift a box; and how to watch it. Try also `delassus simulate quadruped --view`."""

import sys

from delassus.pictures.viewer import view
from delassus.scenes import dual_arm
from delassus.simulate.recording import Recorder

ready = dual_arm()
print(ready.description)
sim = ready.simulator()
recording = sim.run(2.4, ready.controller, record=Recorder(every=10))
box = ready.scene.q_slice("box")
lifted = recording.q[-1, box][2] - recording.q[0, box][2]
last = recording.contacts(-1)
touching = {recording.origin.colliders[c] for c in last["colliders"].ravel()} - {"box"}
print(f"after {sim.time:g} s the box is {lifted:.3f} m up, held by {', '.join(sorted(touching))}")
assert lifted > 0.05

if "--view" in sys.argv:
    view(recording)  # in the browser, until Ctrl-C
