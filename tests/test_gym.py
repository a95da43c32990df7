"""Learning environments: what gymnasium asks of them, and what happens in their worlds."""

from __future__ import annotations

import copy
import importlib
import itertools
import pickle
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode

import delassus.gym
from delassus.errors import DelassusError
from delassus.gym.go1 import HEIGHT, LOWEST, STEEPEST

MADE = {
    "Go1Velocity": lambda n, **options: delassus.gym.Go1Velocity(n, generic=True, **options),
    "HumanoidStand": delassus.gym.HumanoidStand,
    "ArmReach": delassus.gym.ArmReach,
}


OPTIONS = {"Go1Velocity": {"generic": True}, "HumanoidStand": {}, "ArmReach": {}}


def same(found: Any, expected: Any) -> bool:
    """Whether two results are the same to the last bit; of ``final_obs``, where there are any."""
    for infos in (found[-1], expected[-1]):
        if "final_obs" in infos:
            infos["final_obs"] = np.stack(infos["final_obs"][infos["_final_obs"]])
    parts = [[np.asarray(x, float) for x in each[:-1]] for each in (found, expected)]
    return data_equivalence(*parts, exact=True) and data_equivalence(found[-1], expected[-1], exact=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MADE)
def test_vectors_are_what_gymnasium_makes_of_single_worlds(name: str) -> None:
    """`SyncVectorEnv` of as many `World`, in each mode, to the last bit: seeds, resets of some, ends of episodes."""
    made = partial(gymnasium.make_vec, f"delassus/{name}-v0", 4, max_episode_steps=4, threads=1, **OPTIONS[name])
    pair = [made(), made("sync")]
    assert pair[0].metadata["autoreset_mode"] is pair[0].autoreset_mode is AutoresetMode.SAME_STEP
    for mode in AutoresetMode:
        for envs in pair:
            envs.autoreset_mode = mode
        rng = np.random.default_rng(0)
        for seed in (3, [8, None, 8, 2**70]):
            assert same(*(envs.reset(seed=seed) for envs in pair))
            for k in range(7):
                if k in (2, 4):  # the second time some of the others have ended
                    some = {"reset_mask": np.arange(4) % 3 == 0 if k == 2 else np.arange(4) < 2}
                    assert same(*(envs.reset(seed=seed, options=dict(some)) for envs in pair))
                if k == 4 and name != "ArmReach":  # a fall
                    for world in (pair[0], *(env.unwrapped.worlds for env in pair[1].envs[:1])):
                        world.q[0, 2] = 0.1
                actions = rng.uniform(-1, 1, pair[0].action_space.shape).astype(np.float32)
                found, expected = (envs.step(actions) for envs in pair)
                ended = found[2] | found[3]
                assert found[0] in pair[0].observation_space and not (found[2] & found[3]).any()
                assert found[2][0] == (k == 4 and name != "ArmReach") and same(found, expected)
                if mode is AutoresetMode.DISABLED and ended.any():
                    with pytest.raises(DelassusError, match=rf"step: expected a reset .* \[{np.flatnonzero(ended)[0]}"):
                        pair[0].step(actions)
                    assert same(*(envs.reset(options={"reset_mask": ended.copy()}) for envs in pair))
    with pytest.raises(DelassusError, match="actions"):
        pair[0].step(np.full(pair[0].action_space.shape, np.nan, np.float32))
    with pytest.raises(DelassusError, match="num_envs"):
        MADE[name](0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MADE)
def test_environments_are_checked_pickled_copied_and_made_anew(name: str) -> None:
    alone = gymnasium.make(f"delassus/{name}-v0", **OPTIONS[name])
    mode = AutoresetMode.NEXT_STEP
    envs = gymnasium.make_vec(f"delassus/{name}-v0", 3, autoreset_mode=mode, max_episode_steps=2, **OPTIONS[name])
    assert envs.spec.max_episode_steps == 2 and envs.spec.kwargs["autoreset_mode"] == "NextStep"
    steps = gymnasium.spec(f"delassus/{name}-v0").max_episode_steps
    assert alone.spec.max_episode_steps == steps == MADE[name](1).longest == (200 if name == "ArmReach" else 1000)
    for env, make in ((alone, gymnasium.make), (envs, gymnasium.make_vec)):
        with pytest.raises((DelassusError, gymnasium.error.ResetNeeded), match="reset"):
            env.step(env.action_space.sample())
        with pytest.raises(DelassusError, match="step: expected a reset before it"):
            env.unwrapped.step(env.action_space.sample())
        anew = make(EnvSpec.from_json(env.spec.to_json()))
        first = env.reset(seed=7)
        assert same(first, anew.reset(seed=7))
        env.step(env.action_space.sample())
        twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env)), env]
        for _ in range(4):  # into the next episode, of the vector
            action = env.action_space.sample()
            found = [twin.step(action) for twin in twins]
            assert same(*copy.deepcopy(found[:2])) and same(found[0], found[2])
        assert same(*(twin.reset() for twin in twins[1:])) and same(first, env.reset(seed=7))
    check_env(alone.unwrapped)


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_a_seed_is_a_run_and_worlds_do_not_know_of_one_another(name: str) -> None:
    """Nor of how many there are, of threads, and of resets of others; also where episodes end and begin anew."""
    rng = np.random.default_rng(1)
    actions = rng.uniform(-1, 1, (30, 9, *MADE[name](1).single_action_space.shape)).astype(np.float32)

    def lived(n: int, seed: int, reset_at: int = 99, **options: Any) -> Any:
        envs = MADE[name](n, episode=0.2, **options)
        first, found = envs.reset(seed=seed)[0], []
        assert len(np.unique(first, axis=0)) == n
        for k, a in enumerate(actions[:, :n]):
            if k == reset_at:
                envs.reset(options={"reset_mask": np.arange(n) > 0})
            found.append(envs.step(a)[0])
        return np.stack([first, *found])

    run = lived(9, 5, threads=1)
    assert np.array_equal(run, lived(9, 5, threads=2)) and not np.array_equal(run, lived(9, 6))
    assert np.array_equal(run[:, :4], lived(4, 5))
    actions[:, 1:] = 0.0
    others = lived(9, 5, reset_at=7)
    assert np.array_equal(run[:, 0], others[:, 0]) and (run[-1, 1:] != others[-1, 1:]).any(axis=1).all()


def test_random_numbers_of_worlds_are_random() -> None:
    """Between two, evenly, and of a world and a place in its stream neither alike: as those of NumPy are."""
    envs = MADE["ArmReach"](2000)
    envs.reset(seed=0)
    some = np.arange(0, 2000, 2)
    drawn = np.hstack([envs.uniform(some, -1.0, 3.0, (2, 10)).reshape(-1, 20), envs.uniform(some, -1.0, 3.0, (1,))])
    assert drawn.dtype == np.float32 and -1 <= drawn.min() < -0.99 and 2.99 < drawn.max() <= 3
    counts = np.histogram(drawn, 64, (-1, 3))[0]
    mean = drawn.size / 64
    assert ((counts - mean) ** 2).sum() / mean < 63 + 6 * np.sqrt(2 * 63)  # chi squared: six deviations
    unit = (drawn - drawn.mean()) / drawn.std()
    for x in (unit, unit.T):  # correlations of n products of deviation 1, six deviations
        for lag in (1, 2, 7):
            products = x[lag:] * x[:-lag]
            assert abs(products.mean()) < 6 / np.sqrt(products.size)
    again, one = MADE["ArmReach"](1), np.arange(1)
    again.reset(seed=6)
    found = [*again.uniform(one, -1.0, 3.0, (20,))[0], *again.uniform(one, -1.0, 3.0)]
    assert np.array_equal(found, drawn[3])
    again.reset(seed=6)
    count = int(again._drawn[0])
    assert splitmix64(0) == 0xE220A8397B1DCDAF  # as published
    bits = [splitmix64(splitmix64(6) ^ splitmix64(count + k)) >> 40 for k in range(21)]
    assert np.array_equal(again.uniform(one, 0.0, 1.0, (21,))[0], np.ldexp(np.float32(bits), -24))


def splitmix64(x: int) -> int:
    """The first number of the generator of that name (Steele, Lea, Flood 2014) after a state."""
    x = (x + 1) * 0x9E3779B97F4A7C15 % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def test_resets_say_what_is_wrong() -> None:
    envs = MADE["Go1Velocity"](3)
    some, bad = np.array([True, False, False]), np.zeros(3, bool)
    with pytest.raises(DelassusError, match="reset_mask: expected all worlds, the first time"):
        envs.reset(options={"reset_mask": some})
    before = envs.reset(seed=0, options={"command": (0.5, 0, 0)})[0]
    for mask in (bad, some[:2], some.astype(int), some.tolist(), "x", some[None]):
        with pytest.raises(DelassusError, match="reset_mask: expected an array"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(LookupError, match=r"'comand'\. Did you mean 'command'"):
        envs.reset(options={"comand": (0, 0, 0)})
    for seed in ([1, 2], [1, 2, -1], "abc", 1.5, -1, True, [[1], [2], [3]]):
        with pytest.raises(DelassusError, match="seed: expected a whole number"):
            envs.reset(seed=seed)
    options = {"reset_mask": some, "command": (0, 0.1, 0)}  # which another wrapper may want to read
    after = envs.reset(options=options)[0]
    assert len(options) == 2 and np.array_equal(after[1:], before[1:]) and (after[0] != before[0]).any()
    assert after[:, 9:12] == pytest.approx(np.array([[0, 0.1, 0], [0.5, 0, 0], [0.5, 0, 0]]))
    one = gymnasium.make("delassus/ArmReach-v0")
    with pytest.raises(LookupError, match="'command'"):
        one.reset(options={"command": (0, 0, 0)})
    with pytest.raises(DelassusError, match="seed"):
        one.unwrapped.reset(seed=[1])


def test_how_long_episodes_are() -> None:
    """In seconds or in steps, the shorter; `make_vec` tells the registered number where the caller tells none."""
    made = partial(gymnasium.make_vec, "delassus/ArmReach-v0", 1)
    for options, steps in (
        ({}, 200), ({"max_episode_steps": 300}, 300), ({"max_episode_steps": 7}, 7), ({"episode": 0.06}, 3),
        ({"episode": 6.0}, 300), ({"episode": 0.2, "max_episode_steps": 7}, 7),
        ({"episode": 0.06, "max_episode_steps": 7}, 3),
    ):  # fmt: skip
        envs = made(**options)
        assert envs.longest == envs.spec.max_episode_steps == steps
    env = gymnasium.make("delassus/ArmReach-v0", max_episode_steps=300)
    assert env.spec.max_episode_steps == 300 < env.unwrapped.worlds.longest
    assert MADE["ArmReach"](1, control=0.01, dt=0.005).longest == 400


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


@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")  # a step in 2,000 of the humanoid is not solved
@pytest.mark.parametrize("name", MADE)
def test_worlds_begin_anew_without_looking(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do on a GPU, where nobody waits for which ones have ended: by beginning everywhere, and masks."""
    pair = envs, others = [MADE[name](5, episode=0.08) for _ in range(2)]
    monkeypatch.setattr(envs.arrays, "waits", False)
    states = [state for state, x in vars(others).items() if isinstance(x, np.ndarray)]
    assert len(states) > 12
    rng, ends = np.random.default_rng(0), np.array([False, True, True, False, False])
    for mode in AutoresetMode:
        for made in pair:
            made.autoreset_mode = mode
            made.reset(seed=0)
            made.steps[1:3] += 2  # these two end together, before the others
        for k in range(3):
            actions = rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
            found, expected = (made.step(actions) for made in pair)
            assert np.array_equal(found[3], ends & (k == 1))
            for a, b in zip(found[:4], expected[:4], strict=True):
                assert np.array_equal(a, b)
            if mode is AutoresetMode.SAME_STEP:
                assert np.array_equal(found[4]["_final_obs"], found[3])
                assert np.array_equal(found[4]["final_obs"], expected[4].get("final_obs", expected[0]))
            elif mode is AutoresetMode.DISABLED and k == 1:
                for made in pair:
                    made.reset(options={"reset_mask": ends})
        for state in states:
            assert np.array_equal(getattr(envs, state), getattr(others, state), equal_nan=True), state
        begun = 0 if mode is AutoresetMode.NEXT_STEP else 1
        assert envs.steps.tolist() == [3, begun, begun, 3, 3]
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
    for k in range(3):
        actions = rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
        found, expected = envs.step(torch.from_numpy(actions)), others.step(actions)
        assert found[4]["final_obs"].numpy() == pytest.approx(expected[4].get("final_obs", expected[0]), abs=1e-5)
        assert found[1].numpy() == pytest.approx(expected[1], abs=1e-5) and found[3].tolist() == [k == 2] * 5
    assert envs.steps.tolist() == [0] * 5 and (found[0] != found[4]["final_obs"]).any(dim=1).all()
    assert torch.equal(envs.reset(seed=3)[0], observations)
    for mask in (np.arange(5) > 2, torch.arange(5) > 2):
        envs.step(torch.zeros(envs.action_space.shape))
        again = envs.reset(seed=3, options={"reset_mask": mask})[0]
        assert torch.equal(again[3:], observations[3:]) and not torch.equal(again[:3], observations[:3])


def test_worlds_are_on_a_device_that_there_is() -> None:
    for device in ("gpu", 1, None):
        with pytest.raises(DelassusError, match="device: expected 'cpu', 'cuda' or such as 'cuda:1'"):
            delassus.gym.Worlds(2, MADE["ArmReach"](1).kernel, 26, 3, device=device)
    with pytest.raises(DelassusError, match="device: expected 'cpu' of one world"):
        delassus.gym.World(delassus.gym.ArmReach, device="cuda")
    with pytest.raises(DelassusError, match="autoreset_mode: expected none of one world"):
        gymnasium.make("delassus/ArmReach-v0", autoreset_mode="NextStep")


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
    some = {"reset_mask": np.array([True, False, False])}
    envs.reset(options={**some, "command": (0.1, 0.2, 0.3)})  # which leaves the others theirs
    for _ in range(3):
        observations = envs.step(np.zeros((3, 12), np.float32))[0]
        assert observations[:, 9:12] == pytest.approx(np.vstack([[0.1, 0.2, 0.3], commands[1:]]))
    envs.reset(options=some)
    for _ in range(3):
        observations = envs.step(np.zeros((3, 12), np.float32))[0]
        assert np.array_equal((observations[:, 9:12] == commands).all(axis=1), [False, True, True])
    assert not np.isin(envs.reset()[0][:, 9:12], commands).any()
    with pytest.raises(DelassusError, match="command"):
        envs.reset(options={"command": commands[:2]})


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
