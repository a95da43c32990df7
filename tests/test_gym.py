"""Learning environments: what gymnasium asks of them, and what happens in their worlds."""

from __future__ import annotations

import importlib
import itertools
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import gymnasium.wrappers.vector
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import delassus.gym
from delassus.errors import DelassusError
from delassus.gym.go1 import HEIGHT, LOWEST, STEEPEST
from tools import escapes

MADE = {
    "Go1Velocity": lambda n, **options: delassus.gym.Go1Velocity(n, generic=True, **options),
    "HumanoidStand": delassus.gym.HumanoidStand,
    "ArmReach": delassus.gym.ArmReach,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_environments_are_as_gymnasium_wants_them(name: str) -> None:
    envs = MADE[name](6, episode=0.1)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    observations, infos = envs.reset(seed=3)
    assert observations in envs.observation_space and infos == {}
    rng = np.random.default_rng(0)
    for k in range(1, 11):
        before = observations
        actions = rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        assert observations in envs.observation_space and observations is not before
        assert rewards.shape == terminated.shape == truncated.shape == (6,) and np.isfinite(rewards).all()
        assert not (terminated & truncated).any()
        ended = terminated | truncated
        assert ended.all() if k % 5 == 0 else not truncated.any()
        assert infos == {} or np.array_equal(infos["_final_obs"], ended)
        if ended.any():  # the observation is that of the new episode, and the last one is not lost
            assert np.abs(infos["final_obs"][ended] - observations[ended]).max(axis=1).min() > 1e-3
    with pytest.raises(DelassusError, match="actions"):
        envs.step(np.full(envs.action_space.shape, np.nan, np.float32))
    with pytest.raises(DelassusError, match="num_envs"):
        MADE[name](0)


@pytest.mark.filterwarnings("ignore")
def test_whatever_worlds_are_given() -> None:
    """Options of all worlds, and of each environment its own: an error of ours, or episodes of finite numbers."""
    arm, go1 = delassus.gym.ArmReach(2), MADE["Go1Velocity"](2)

    def made(envs: delassus.gym.Worlds, **options: Any) -> Any:
        delassus.gym.Worlds.__init__(envs, kernel=arm.kernel, observed=26, actions=3, **options)
        return envs.reset(seed=0), envs.step(np.zeros((envs.num_envs, 3)))

    times = {"control": 0.02, "dt": 0.01, "episode": 1.0}
    calls = {
        "Worlds": (
            partial(made, arm),
            {"num_envs": 2, **times, "friction": (0.5, 1.0), "payload": (0.0, 1.0), "threads": 1},
        ),
        "reset": (go1.reset, {"seed": 0, "options": {}}),
        "command": (lambda command: go1.reset(options={"command": command}), {"command": np.zeros(3)}),
        "step": (go1.step, {"actions": np.zeros((2, 12))}),
    }
    found = escapes(calls)
    assert found == [], "\n".join(found)
    for wrong in ({"generic": "x"}, {"dt": 1e-300}, {"control": 1e300}):
        with pytest.raises(DelassusError, match="|".join(wrong) + "|control"):
            delassus.gym.Go1Velocity(2, **{"generic": True, **wrong})
    with pytest.raises(DelassusError, match="push"):
        delassus.gym.HumanoidStand(2, push=np.nan)


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_a_seed_is_a_run_and_worlds_do_not_know_of_one_another(name: str) -> None:
    rng, runs = np.random.default_rng(1), []
    actions = rng.uniform(-1, 1, (30, 9, *MADE[name](1).single_action_space.shape)).astype(np.float32)
    for threads in (1, 2, 1):
        envs = MADE[name](9, threads=threads)
        envs.reset(seed=5 if len(runs) < 2 else 6)
        runs.append(np.stack([envs.step(a)[0] for a in actions]))
    assert np.array_equal(runs[0], runs[1]) and not np.array_equal(runs[0], runs[2])
    alone = MADE[name](9)
    alone.reset(seed=5)
    others = actions.copy()
    others[:, 1:] = 0.0
    found = np.stack([alone.step(a)[0] for a in others])
    assert np.array_equal(found[:20, 0], runs[0][:20, 0])


def test_friction_and_payload_are_drawn_anew_for_each_episode() -> None:
    envs = MADE["Go1Velocity"](200, friction=(0.4, 0.9), payload=(1.0, 3.0), episode=0.04)
    envs.reset(seed=0)
    first = envs._friction.copy(), envs._payload.copy()
    assert 0.4 <= first[0].min() < 0.45 and 0.85 < first[0].max() <= 0.9
    assert 1.0 <= first[1][:, 0].min() < 1.1 and 2.9 < first[1][:, 0].max() <= 3.0
    for _ in range(2):
        envs.step(np.zeros((200, 12), np.float32))
    assert not np.array_equal(first[1], envs._payload)
    with pytest.raises(DelassusError, match="friction"):
        MADE["Go1Velocity"](2, friction=(1.0, 0.5))
    with pytest.raises(DelassusError, match="control"):
        MADE["Go1Velocity"](2, control=0.02, dt=0.003)


def test_a_standing_quadruped_stands_and_carries_its_load() -> None:
    """Without actions it sags by what springs of its joints yield, and more under a load; rewards are as documented."""
    heights = []
    for payload in (0.0, 0.3):
        envs = MADE["Go1Velocity"](4, payload=(payload, payload))
        envs.reset(seed=0, options={"command": (0, 0, 0)})
        for _ in range(100):
            _, rewards, terminated, _, _ = envs.step(np.zeros((4, 12), np.float32))
            assert not terminated.any()
        for k in range(envs.decimation):  # the kernel goes the path that is told
            *after, _ = envs.kernel(
                **{name: x[k] if name in ("q", "v", "impulses") else x for name, x in envs.path.items()}
            )
            for name, x in zip(("q", "v", "impulses"), after, strict=True):
                assert x == pytest.approx(envs.path[name][k + 1], abs=1e-5)
        assert np.array_equal(envs.path["q"][-1], envs.q)
        heights.append(envs.q[:, 2].mean())
        assert rewards == pytest.approx(1.5 * envs.control, rel=2e-2)
    assert 0.25 < heights[1] < heights[0] - 5e-4 < HEIGHT


def test_falling_ends_an_episode() -> None:
    envs = MADE["Go1Velocity"](3)
    envs.reset(seed=0)
    envs.q[1, 3:7] = [1, 0, 0, 0]  # on its back
    envs.q[2, 2] = LOWEST - 0.05
    _, _, terminated, _, infos = envs.step(np.zeros((3, 12), np.float32))
    assert terminated.tolist() == [False, True, True]
    assert infos["final_obs"][1, 2] < STEEPEST and envs.steps.tolist() == [1, 0, 0]
    envs.v[0, 3] = np.nan
    observations, rewards, terminated, _, infos = envs.step(np.zeros((3, 12), np.float32))
    assert terminated.tolist() == [True, False, False] and np.isfinite(observations).all() and rewards[0] == 0.0
    assert np.isfinite(infos["final_obs"]).all()


@pytest.mark.parametrize("name", MADE)
def test_worlds_begin_anew_without_looking(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do on a GPU, where nobody waits for which ones have ended: by beginning everywhere, and masks."""
    envs, others = (MADE[name](5, episode=0.08) for _ in range(2))
    monkeypatch.setattr(envs.arrays, "waits", False)
    rng = np.random.default_rng(0)
    for made in (envs, others):
        made.reset(seed=0)
        made.steps[1:3] += 2  # these two end together, before the others
    states = (
        "q",
        "v",
        "impulses",
        "actions",
        "steps",
        "_friction",
        "_payload",
        "goals",
        "command",
        "_before",
        "_phase",
    )
    for k in range(2):
        actions = rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
        found, expected = envs.step(actions), others.step(actions)
        ended = found[3]
        assert np.array_equal(ended, [False, k == 1, k == 1, False, False])
        for a, b in zip(found[:4], expected[:4], strict=True):
            assert np.array_equal(a[~ended], b[~ended])
        assert np.array_equal(found[4]["_final_obs"], ended)
        if k == 1:
            assert np.array_equal(found[4]["final_obs"], expected[4]["final_obs"])
    for state in states:
        a, b = (getattr(made, state, np.zeros(5)) for made in (envs, others))
        assert np.array_equal(a[~ended], b[~ended])
    assert envs.steps.tolist() == [2, 0, 0, 2, 2] and (envs.q[ended] != envs.path["q"][-1][ended]).any()
    before = np.array(envs.observations)
    envs.observe(slice(None))
    assert np.array_equal(envs.observations, before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MADE)
def test_worlds_of_torch_are_those_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text that runs on a GPU, with tensors of the processor: steps, ends of episodes, new ones."""
    torch = pytest.importorskip("torch")
    others, known = MADE[name](5, episode=0.06), delassus.gym.Worlds.__init__.__globals__
    of_torch = known["arrays_of"].__globals__["OfPyTorch"]
    monkeypatch.setitem(known, "arrays_of", lambda device: of_torch("cpu"))
    envs, rng = MADE[name](5, episode=0.06), np.random.default_rng(0)
    observations, infos = envs.reset(seed=3)
    others.reset(seed=3)
    assert isinstance(observations, torch.Tensor) and observations.dtype is torch.float32 and infos == {}
    for state in ("q", "v", "_friction", "_payload", "command", "goals", "_phase"):
        if hasattr(envs, state):
            getattr(others, state)[...] = getattr(envs, state).numpy()
    envs._push = others._push = 0.0
    for k in range(3):
        actions = rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
        found, expected = envs.step(torch.from_numpy(actions)), others.step(actions)
        assert found[4]["final_obs"].numpy() == pytest.approx(expected[4].get("final_obs", expected[0]), abs=1e-5)
        assert found[1].numpy() == pytest.approx(expected[1], abs=1e-5) and found[3].tolist() == [k == 2] * 5
    assert envs.steps.tolist() == [0] * 5 and (found[0] != found[4]["final_obs"]).any(dim=1).all()
    assert torch.equal(envs.reset(seed=3)[0], observations)


def test_worlds_are_on_a_device_that_there_is() -> None:
    for device in ("gpu", 1, None):
        with pytest.raises(DelassusError, match="device: expected 'cpu', 'cuda' or such as 'cuda:1'"):
            delassus.gym.Worlds(2, MADE["ArmReach"](1).kernel, 26, 3, device=device)
    with pytest.raises(DelassusError, match="device: expected 'cpu' of one world"):
        delassus.gym.World(delassus.gym.ArmReach, device="cuda")


def test_paths_end_where_episodes_do() -> None:
    """And not where the next ones begin."""
    envs = MADE["Go1Velocity"](2, episode=0.02)
    envs.reset(seed=0)
    *_, infos = envs.step(np.zeros((2, 12), np.float32))
    assert envs.path["q"][-1][:, 7:] - envs._stance == pytest.approx(infos["final_obs"][:, 12:24], abs=1e-6)
    assert (envs.path["q"][-1] != envs.q).any()


def test_the_arm_reaches_through_its_controller() -> None:
    """Straight to the goal: within 5 cm for most, whatever they carry."""
    envs = MADE["ArmReach"](64, payload=(0.0, 0.3))
    observations, _ = envs.reset(seed=0)
    for _ in range(190):
        observations = envs.step(np.clip(observations[:, 3:6] / 0.1, -1, 1))[0]
    assert np.median(np.linalg.norm(observations[:, 3:6], axis=1)) < 0.05


def test_pushes_move_the_humanoid() -> None:
    """Each world at its own time, and not before."""
    runs = []
    for push in (0.0, 0.5):
        envs = MADE["HumanoidStand"](8, push=push)
        envs.reset(seed=0)
        due = 101 - envs._phase
        runs.append([envs.step(np.zeros((8, 14), np.float32)) and envs.v[:, :2].copy() for _ in range(40)])
    apart = np.abs(np.array(runs[0]) - runs[1]).max(axis=2) > 0
    soon = np.flatnonzero(due <= 40)
    assert soon.size > 1
    assert apart[:, soon].argmax(axis=0).tolist() == (due[soon] - 1).tolist()
    assert not apart[:, due > 40].any()


def test_commands_hold_until_the_next_reset() -> None:
    envs = MADE["Go1Velocity"](3, episode=0.04)
    commands = np.array([[0.5, 0, 0], [0, 0.2, 0], [0, 0, -0.7]], np.float32)
    observations, _ = envs.reset(seed=0, options={"command": commands})
    for _ in range(3):  # into the next episodes
        assert np.array_equal(observations[:, 9:12], commands)
        observations = envs.step(np.zeros((3, 12), np.float32))[0]
    assert not np.isin(envs.reset()[0][:, 9:12], commands).any()
    with pytest.raises(DelassusError, match="command"):
        envs.reset(options={"command": commands[:2]})


def test_training_loops_of_others_find_what_they_need() -> None:
    """Environments are registered, and Gymnasium's wrappers for vectors count their episodes."""
    envs = gymnasium.make_vec("delassus/Go1Velocity-v0", num_envs=2, generic=True, episode=0.06)
    assert envs.spec.id == "delassus/Go1Velocity-v0" and envs.render_mode is None and not envs.closed
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.wrappers.vector.ClipAction(envs))
    assert envs.reset(seed=0)[0].shape == (2, 50)
    gained = sum(envs.step(envs.action_space.sample())[1] for _ in range(2))
    _, rewards, _, truncated, infos = envs.step(np.ones((2, 12), np.float32))
    assert truncated.all() and infos["episode"]["l"].tolist() == [3, 3]
    assert np.allclose(infos["episode"]["r"], gained + rewards, atol=1e-6)
    envs.close()
    assert envs.unwrapped.closed


def test_one_world_is_an_environment_with_pictures() -> None:
    """The same numbers as a vector of one; the end of an episode is shown, and not the start of the next one."""
    env = gymnasium.make("delassus/ArmReach-v0", render_mode="rgb_array", size=(48, 32), episode=0.06)
    envs, rng = delassus.gym.ArmReach(1, episode=0.06), np.random.default_rng(0)
    assert np.array_equal(env.reset(seed=2)[0], envs.reset(seed=2)[0][0])
    for k in range(3):
        action = rng.uniform(-1, 1, 3).astype(np.float32)
        seen, reward, terminated, truncated, infos = env.step(action)
        together = envs.step(action[None])
        expected = together[4].get("final_obs", together[0])[0]
        assert np.array_equal(seen, expected) and reward == together[1][0] and (terminated, infos) == (False, {})
        assert truncated == (k == 2)
    picture = env.render()
    assert picture.shape == (32, 48, 3) and len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    assert env.reset(seed=2)[0].shape == (26,) and not np.array_equal(env.render(), picture)
    assert delassus.gym.World(lambda n: envs).render() is None
    alone = partial(delassus.gym.World, lambda n: envs)
    found = escapes({
        "World": (alone, {"render_mode": "rgb_array", "size": (32, 24)}),
        "step": (env.unwrapped.step, {"action": np.zeros(3)}),
    })  # fmt: skip
    assert found == [], "\n".join(found)


@pytest.mark.slow
def test_the_example_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `examples/train.py`: a hundred iterations make rewards better, and its score can be taken."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "examples")
    train = importlib.import_module("train")
    monkeypatch.setitem(train.WORLDS, "ArmReach", 64)
    monkeypatch.setattr(train, "time", SimpleNamespace(process_time=itertools.count().__next__))  # a second each
    learners, _, rewards = zip(*train.train("ArmReach", 99.5 / 60, 0, 1), strict=True)
    rewards = np.array(rewards)
    assert len(rewards) == 100 and rewards[-20:].mean() > rewards[:20].mean() + 0.1
    assert train.score("ArmReach", learners[-1].act)[1] == 0.0
