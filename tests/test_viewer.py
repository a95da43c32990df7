"""The viewer: its page loads in headless Chromium, and what is on it moves when it plays and only then."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import itertools
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import delassus as ds
from delassus.contact import Box, Capsule, Collider, Cylinder, HalfSpace, Mesh, Scene, Sphere
from delassus.pictures import guard, view
from delassus.pictures.players import Instant, Live, Replay, player_of
from internals import Recorder, boxes, pendulum

pytest.importorskip("viser")

PATIENCE = 40.0
"""Seconds that a page may take on a busy machine without graphics card."""

SAME, CHANGED = 0.0005, 0.003
"""Part of the pixels that differ by more than noise: less than SAME is a still picture, more than CHANGED is motion."""


def chromium():
    """Where Chromium is, None where it is not: asked when a test begins, as it may be installed while others run."""
    return next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Browser:
    """Headless Chromium with one page, over the DevTools protocol."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [
                chromium(), "--headless=new", "--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={folder}",
                "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--window-size=640,480",
                "--no-first-run", "--disable-dev-shm-usage", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        stop = time.monotonic() + PATIENCE
        port = folder / "DevToolsActivePort"
        while not (port.exists() and port.read_text().strip()):
            assert time.monotonic() < stop, "Chromium did not start"
            time.sleep(0.1)
        address = f"http://127.0.0.1:{port.read_text().split()[0]}/json"
        pages = json.load(urllib.request.urlopen(address))
        from websockets.sync.client import connect

        page = next(p for p in pages if p["type"] == "page")
        self._socket = connect(page["webSocketDebuggerUrl"], max_size=None, open_timeout=PATIENCE)
        self._numbers = itertools.count(1)

    def ask(self, method, **parameters):
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE))
            if answer.get("id") != number:
                continue
            if "Not attached to an active page" in answer.get("error", {}).get("message", ""):
                time.sleep(0.2)  # in the middle of loading one
                return self.ask(method, **parameters)
            assert "error" not in answer, answer
            return answer["result"]

    def picture(self):
        """Pixels (height, width, 3) of the page's left part, where no controls are."""
        from PIL import Image

        data = base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])
        image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
        return image[:, : int(0.6 * image.shape[1])]

    def close(self):
        self._socket.close()
        self._process.terminate()
        self._process.wait(20)


def changed(a, b):
    """Part of the pixels that differ."""
    return float((np.abs(a - b).max(axis=-1) > 24).mean())


@pytest.mark.slow
@pytest.mark.skipif("chromium() is None", reason="needs Chromium")
def test_the_page_shows_the_robot_moving(tmp_path):
    viewer = view(pendulum(4), port=free_port(), block=False)
    try:
        viewer.play(False)
        browser = Browser(tmp_path)
        try:
            blank = browser.picture()
            browser.ask("Page.navigate", url=viewer.url)
            stop = time.monotonic() + PATIENCE
            while True:  # until something is drawn, and stands still because it is paused
                first, second = browser.picture(), (time.sleep(0.5), browser.picture())[1]
                colours = len(np.unique(second.reshape(-1, 3) // 16, axis=0))
                if colours > 20 and changed(blank, second) > CHANGED and changed(first, second) < SAME:
                    break
                assert time.monotonic() < stop, "the page stays empty"
            viewer.play()
            stop = time.monotonic() + PATIENCE
            while changed(second, browser.picture()) < CHANGED:
                assert time.monotonic() < stop, "nothing moves"
                time.sleep(0.2)
            words = browser.ask("Runtime.evaluate", expression="document.body.innerText")["result"]["value"]
            assert {"Pause", "Restart", "Speed", "Contact forces", "Follow"} <= set(words.splitlines())
        finally:
            browser.close()
    finally:
        viewer.stop()


@pytest.mark.slow
def test_every_shape_and_force_can_be_drawn():
    """All kinds of colliders, on links and on the world, and arrows that come and go."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]) * 0.1
    shapes = [Sphere(0.1), Capsule(0.05, 0.2), Box(0.1, 0.2, 0.3), Cylinder(0.1, 0.2), Mesh(corners)]
    shapes.append(Mesh(corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], convex=False))
    arm = ds.mechanisms.chain(len(shapes))
    on_links = [Collider(f"link{k + 1}", s, (0.1, 0, 0)) for k, s in enumerate(shapes)]
    fixed = [Collider("world", s, (0, 0, -3)) for s in shapes[:4]]
    scene = Scene(arm, [*on_links, *fixed, Collider("world", HalfSpace(), (0, 0, -5))])
    sim = ds.Simulator(scene, q0=arm.random(0), max_overlap=10.0)
    viewer = view(sim, port=free_port(), block=False)
    try:
        names = set(viewer._server.scene._handle_from_node_name)
        assert sum("surface" in name for name in names) >= len(scene.colliders) - 1
        assert sum("half_space" in name for name in names) == 1
        viewer._stopped.set()  # its thread draws, too
        viewer._thread.join()
        for show in (True, False, True):
            paths = arm.random(2)[:4].reshape(1, -1, 1) * np.ones(3) if show else np.zeros((0, 0, 3))
            instant = Instant(0.0, arm.random(1), np.zeros((2, 3)), np.ones((2, 3)), paths)
            viewer._drawings[0].update(instant, viewer._layers if show else ())
            names = set(viewer._server.scene._handle_from_node_name)
            assert {f"/world0/{name}" for name in ("paths", "contacts", "centres")} <= names or not show
            assert ("/world0/contacts" in names) == show
    finally:
        viewer.stop()


def answer(port, *headers):
    """Status of the answer to a request with these headers, that of a WebSocket where there is one named Upgrade."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as s:
        s.sendall("\r\n".join(["GET / HTTP/1.1", *headers, "", ""]).encode())
        return int(s.recv(4096).split()[1])


def test_only_the_page_itself_may_connect():
    """Raw requests: pages of others are refused by Origin, names that others lead here by Host."""
    viewer = view(pendulum(2), port=free_port(), block=False)
    try:
        port = int(viewer.url.rsplit(":", 1)[1])
        socket_of_page = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                          "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]  # fmt: skip
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "localhost:9000"):
            assert answer(port, f"Host: {host}", f"Origin: http://{host}", *socket_of_page) == 101
            assert answer(port, f"Host: {host}") == 200
            for origin in ("http://evil.example", "null", f"https://{host}", f"http://{host}.evil.example",
                           f"http://{host}/", f"http://{host}0", "http://localhost", ""):  # fmt: skip
                assert answer(port, f"Host: {host}", f"Origin: {origin}", *socket_of_page) == 403, origin
            assert answer(port, f"Host: {host}", *socket_of_page) == 403
            assert (
                answer(port, f"Host: {host}", f"Origin: http://{host}", f"Origin: http://{host}", *socket_of_page)
                == 403
            )
        for host in (f"evil.example:{port}", "evil.example", "", "[", "localhost.evil.example", "0x7f.1"):
            assert answer(port, f"Host: {host}", f"Origin: http://{host}", *socket_of_page) == 403, host
        assert answer(port, f"Origin: http://localhost:{port}", *socket_of_page) == 403
    finally:
        viewer.stop()


def test_hosts_of_a_server_on_the_network():
    def may(host, at="0.0.0.0"):
        return guard.is_own_page([host], [f"http://{host}"], at)

    assert may("10.0.0.7:8080") and may("[fe80::1]:8080") and may(f"{socket.gethostname().lower()}:8080")
    assert may("robots.lab:8080", at="robots.lab") and may("localhost:8080")
    assert not may("evil.example:8080") and not may("robots.lab:8080")
    assert not guard.is_own_page(["10.0.0.7", "10.0.0.7"], ["http://10.0.0.7"], "0.0.0.0")


def test_a_server_that_cannot_be_guarded_is_stopped(monkeypatch):
    """A later viser may serve in another way: then there is no page, rather than one that others may use."""
    import viser

    stopped = []
    server = type("Server", (), {"__init__": lambda self, **options: None, "stop": lambda self: stopped.append(self)})
    monkeypatch.setattr(viser, "ViserServer", server)
    with pytest.raises(ds.DelassusError, match="whose server can be guarded"):
        view(pendulum(2), port=free_port(), block=False)
    assert len(stopped) == 1


@pytest.mark.parametrize("host", ["10.99.99.99", "nowhere.invalid", "", "a b", "a\0b", None, b"::1", 3, "x" * 300])
def test_hosts_that_are_none_are_refused(host):
    """viser tries them for ever."""
    with pytest.raises(ds.DelassusError, match="an address of this machine"):
        view(pendulum(2), host=host, block=False)


def test_players_play_again_and_seek():
    ready = pendulum(3)
    live = player_of(ready)
    assert isinstance(live, Live)
    live.advance(0.002, budget=60.0)
    assert np.isclose(live.instant().time, 0.002, atol=ready.dt)
    moved = live.instant().q.copy()
    live.seek(0.0)
    assert np.array_equal(live.instant().q, ready.q0)
    live.advance(0.002, budget=60.0)
    assert np.array_equal(live.instant().q, moved)

    ready = boxes(1)
    recording = ready.simulator().run(0.15, record=Recorder())
    replay = player_of(recording)
    assert isinstance(replay, Replay)
    replay.seek(recording.time[-1])
    frame = replay.instant()
    assert np.array_equal(frame.q, recording.q[-1])
    assert len(frame.points) == recording.contact_counts[-1] == 4
    assert np.isclose(frame.forces[:, 2].sum(), 9.81, rtol=1e-6)  # a box of 1 kg at rest
    replay.advance(0.01, budget=1.0)
    assert replay.instant().time == recording.time[0]


@pytest.mark.parametrize(
    ("source", "message"), [(3, "a Recording, a ReadyScene or a Simulator"), ("pendulum", "Pass such as pendulum")]
)
def test_what_cannot_be_shown_is_refused(source, message):
    with pytest.raises(ds.DelassusError, match=message):
        view(source, block=False)


def test_a_recording_from_a_file_needs_its_scene(tmp_path):
    ready = pendulum(3)
    recording = ready.simulator().run(0.001, record=Recorder())
    read = type(recording).load(recording.save(tmp_path / "r.npz"))
    with pytest.raises(ds.DelassusError, match="knows its scene"):
        view(read, block=False)
    with pytest.raises(ds.DelassusError, match="port"):
        view(ready, port=0, block=False)
    player_of(type(recording).load(tmp_path / "r.npz", scene=ready.scene))


def person(handle, value, client=None):
    """What a change by somebody at the page does."""
    handle._impl.value = value
    for callback in handle._impl.update_cb:
        callback(SimpleNamespace(client=client or object(), target=handle))


@contextlib.contextmanager
def page(source):
    """A viewer that only moves when it is told to: `after` is what its thread would do."""
    viewer = view(source, port=free_port(), block=False)
    try:
        viewer.play(False)
        viewer._stopped.set()
        viewer._thread.join()
        yield viewer
    finally:
        viewer.stop()


def after(viewer):
    while viewer._todo:
        viewer._todo.popleft()()
    viewer._told_at = -1.0
    viewer._show([player.instant() for player in viewer.players])


def test_sliders_keyframes_and_buttons_move_a_simulation():
    arm = ds.mechanisms.chain(3)
    arm = dataclasses.replace(arm, keyframes={"bent": np.array([0.1, 0.2, 0.3])})
    scene = ds.Scene({"arm": arm}).add("box", Box(0.1, 0.1, 0.1), mass=1.0, at=(3, 0, 0))
    with page(ds.Simulator(scene, v0=np.ones(9))) as viewer:
        (live,), sim = viewer.players, viewer.players[0].sim
        assert [index for _, index, _ in viewer._joints] == [0, 1, 2]
        viewer.play()
        person(viewer._joints[1][2], 0.7)
        assert not viewer._playing
        after(viewer)
        assert sim.q[1] == 0.7 and not sim.v.any() and np.array_equal(sim.q[3:6], [3, 0, 0])
        person(viewer._menus[0], "arm/bent")
        after(viewer)
        assert np.array_equal(sim.q[:3], [0.1, 0.2, 0.3])
        assert np.allclose([slider.value for _, _, slider in viewer._joints], [0.1, 0.2, 0.3], atol=0.01)
        person(viewer._buttons, "Step")
        after(viewer)
        assert live.instant().time == sim.dt
        person(viewer._buttons, "Restart")
        after(viewer)
        assert sim.time == 0.0 and sim.v.all()
        person(viewer._slider, 0.5)
        assert viewer._speed == 0.5
        assert f'src="{viewer.url}"' in viewer._repr_html_()


def test_screenshots_and_the_camera_that_follows(monkeypatch):
    from PIL import Image

    sent, place = [], np.zeros(3)
    camera = SimpleNamespace(position=place, look_at=place, aspect=0.5, image_height=4, image_width=6)
    client = SimpleNamespace(
        camera=camera,
        get_render=lambda height, width, **_: np.full((height, width, 3), 7, np.uint8),
        send_file_download=lambda name, content: sent.append((name, content)),
    )
    with page(boxes(1)) as viewer:
        monkeypatch.setattr(viewer._server, "get_clients", lambda: {0: client})
        viewer._frame(client)
        narrow = np.linalg.norm(camera.position - viewer._centre)
        camera.aspect = 2.0
        viewer._frame(client)
        assert narrow > np.linalg.norm(camera.position - viewer._centre) > viewer._radius
        person(viewer._buttons, "Screenshot", client)
        ((name, content),) = sent
        assert name == "delassus.png" and np.asarray(Image.open(io.BytesIO(content))).shape == (4, 6, 3)
        before, (live,) = camera.position, viewer.players
        for follow, moved in ((False, 0.0), (True, 1.0)):
            viewer._follow.value = follow
            live.put(np.add(live.sim.q, [1, 2, 0, 0, 0, 0, 0]))
            after(viewer)
            assert np.allclose(camera.position - before, [moved, 2.0 * moved, 0.0])


def test_the_mouse_pulls_a_point_as_a_damped_spring_of_its_mean_mass():
    """Against G of a point and forward dynamics, on a link amid a tree that moves, beside another robot."""
    arm = ds.mechanisms.comb(4)
    scene = ds.Scene({"box": ds.mechanisms.free_body(2.0, np.diag([0.1, 0.2, 0.3])), "arm": arm}, gravity=np.zeros(3))
    rng = np.random.default_rng(3)
    sim = ds.Simulator(
        scene, q0=scene.tree.random(rng), v0=rng.normal(size=scene.tree.nv), passive="none", limits=False
    )
    q, v = sim.q[7:], sim.v[6:]
    name, point, target = arm.link_names[2], rng.normal(size=3), rng.normal(size=3)
    frame = ds.Frame(name, point)
    G = ds.delassus(arm, [ds.Point(frame)], q)
    J = ds.frame_jacobian(arm, q, frame, reference="local-world-aligned")[:3]
    away = target - ds.forward_kinematics(arm, q, frame)[:3, 3]
    force = 3.0 / np.trace(G) * (100.0 * away - 20.0 * J @ v)
    pushed, free = (ds.forward_dynamics(arm, q, v, tau, gravity=np.zeros(3)).qdd for tau in (J.T @ force, 0.0 * v))
    with page(sim) as viewer:
        drawing, (live,) = viewer._drawings[0], viewer.players
        grab, start = viewer._grab_of(live, 0), ds.forward_kinematics(arm, q, frame)[:3, 3]
        grab(3, SimpleNamespace(phase="start", start_position=start, end_position=start))
        grab(3, SimpleNamespace(phase="update", start_position=start, end_position=target))
        after(viewer)
        assert np.allclose(drawing._handles["pulled"].points, [[start, target]], atol=1e-6)
        before = sim.v.copy()
        live._drag(live._grip)
        assert np.allclose(sim.v[6:] - before[6:], sim.dt * (pushed - free), rtol=1e-9, atol=1e-12)
        assert np.array_equal(sim.v[:6], before[:6])
        for _ in range(200):
            live.step()
        end = ds.forward_kinematics(arm, sim.q[7:], frame)[:3, 3]
        assert np.linalg.norm(end - target) < np.linalg.norm(start - target)
        grab(3, SimpleNamespace(phase="end", start_position=end, end_position=target))
        after(viewer)
        assert live.pulled is None and "pulled" not in drawing._handles


def test_worlds_stand_side_by_side_and_are_in_view():
    ready = boxes(2)
    recording = ready.simulator().run(0.05, record=Recorder())
    with page([ready, recording, pendulum(3)]) as viewer:
        offsets = np.array([drawing.offset for drawing in viewer._drawings])
        assert len(np.unique(offsets, axis=0)) == 3 and viewer._time is None
        camera = viewer._server.initial_camera
        for drawing, player in zip(viewer._drawings, viewer.players, strict=True):
            poses = ds.forward_kinematics(player.scene.tree, player.instant().q)
            batches = drawing._meshes["Shapes"]._batches
            assert [*range(len(poses))] in [links for _, links in batches]
            for handle, links in batches:
                assert np.allclose(handle.batched_positions, poses[links, :3, 3], atol=1e-6)
                turns = Rotation.from_quat(handle.batched_wxyzs, scalar_first=True).as_matrix()
                assert np.allclose(turns, poses[links, :3, :3], atol=1e-6)
            for handle in drawing._meshes["Shapes"]._handles:
                if "batched_positions" in dir(handle):
                    continue
                link = next((k for k, h in drawing._links.items() if handle.name.startswith(h.name + "/")), -1)
                pose = poses[link] if link >= 0 else np.eye(4)
                seen = handle.vertices @ pose[:3, :3].T + pose[:3, 3] + drawing.offset - camera.position
                ahead = np.subtract(camera.look_at, camera.position)
                angles = np.arccos(seen @ ahead / np.linalg.norm(seen, axis=1) / np.linalg.norm(ahead))
                assert angles.max() < camera.fov / 2
    with page([recording, recording]) as viewer:
        person(viewer._time, 0.05)
        after(viewer)
        assert [player.instant().time for player in viewer.players] == [recording.time[-1]] * 2
        viewer.restart()
        viewer.step()
        after(viewer)
        assert viewer.players[0].instant().time == recording.time[1]
    with pytest.raises(ds.DelassusError, match="empty list"):
        view([], block=False)


def test_layers_show_inertias_centres_and_loops():
    """Ellipsoids have the inertia of links; centres and ends of loops are where kinematics has them."""
    rng = np.random.default_rng(0)
    arm = ds.mechanisms.chain(4).lock({"link4_joint": 0.4})
    q, ends = arm.random(rng), [ds.Frame(name, rng.normal(size=3)) for name in ("link4", "link1")]
    places = ds.forward_kinematics(arm, q, ends)[:, :3, 3]
    rod = ds.Distance(*ends, length=float(np.linalg.norm(places[1] - places[0])))
    with page(ds.Simulator(ds.Scene(arm, loops=[rod]), q0=q)) as viewer:
        for box in viewer._layers.values():
            box.value = True
        after(viewer)
        drawing = viewer._drawings[0]
        handles = drawing._handles
        assert np.allclose(handles["loops"].points, [places], atol=1e-6)
        assert np.allclose(handles["centres"].points[-1], ds.centre_of_mass(arm, q), atol=1e-6)
        poses = ds.forward_kinematics(arm, q)
        assert np.allclose(handles["axes"].batched_positions, poses[:, :3, 3], atol=1e-6)
        for handle, H in zip(drawing._meshes["Inertias"]._handles, arm.inertias, strict=True):
            mesh = Mesh(handle.vertices.astype(float), handle.faces, convex=False)
            found, c = mesh.inertia(H[0, 0]), mesh.center_of_mass
            assert np.allclose(c, [H[5, 1] / H[0, 0], H[3, 2] / H[0, 0], H[4, 0] / H[0, 0]], atol=1e-6)
            assert np.allclose(
                found + H[0, 0] * (c @ c * np.eye(3) - np.outer(c, c)), H[3:, 3:], atol=0.03 * found.max()
            )
        assert not any(h.visible for h in drawing._meshes["Shapes"]._handles)
        viewer._layers["Colliders"].value = viewer._layers["Loops"].value = False
        after(viewer)
        assert all(h.visible for h in drawing._meshes["Shapes"]._handles) and "loops" not in drawing._handles


def test_rerun_shows_a_simulation(tmp_path, monkeypatch):
    rerun = pytest.importorskip("rerun")
    monkeypatch.setattr(rerun.RecordingStream, "spawn", lambda stream: stream.save(tmp_path / "live.rrd"))
    viewer = view(pendulum(2), backend="rerun", block=False)
    stop = time.monotonic() + PATIENCE
    while viewer.players[0].instant().time < 0.01:
        assert time.monotonic() < stop
        time.sleep(0.05)
    viewer.stop()
    assert (tmp_path / "live.rrd").stat().st_size > 0
    with pytest.raises(ds.DelassusError, match="backend"):
        view(pendulum(2), backend="vnc", block=False)
