"""Learning environments in other people's hands: wrappers of Gymnasium, and libraries with vectors of their own."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers as singly
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as together

import delassus.gym
from delassus import DelassusError

ARM = "delassus/ArmReach-v0"
SPACE = Box(-np.inf, np.inf, (26,), np.float32)
HALVED = Box(-0.5, 0.5, (3,), np.float32)

OBSERVATIONS = {
    "DtypeObservation": {"dtype": np.float64},
    "FlattenObservation": {},
    "NormalizeObservation": {},
    "ReshapeObservation": {"shape": (13, 2)},
}
ACTIONS = {"ClipAction": {}, "RescaleAction": {"min_action": np.float32(-2), "max_action": np.float32(2)}}
REWARDS = {
    "ClipReward": {"min_reward": -(2.0**-7), "max_reward": 2.0**-7},
    "NormalizeReward": {},
    "TransformReward": {"func": lambda r: 3 * r},
}
OF_VECTORS = {
    **OBSERVATIONS, **ACTIONS, **REWARDS, "DictInfoToList": {}, "RecordEpisodeStatistics": {},
    "TransformObservation": {"func": lambda seen: 2 * seen},
    "TransformAction": {"func": lambda action: 0.5 * action},
    "VectorizeTransformAction": {
        "wrapper": singly.TransformAction, "func": lambda action: 0.5 * action, "action_space": HALVED
    },
    "VectorizeTransformObservation": {
        "wrapper": singly.TransformObservation, "func": lambda seen: 2 * seen, "observation_space": SPACE
    },
    "VectorizeTransformReward": {"wrapper": singly.TransformReward, "func": lambda r: 3 * r},
}  # fmt: skip
"""Wrappers of vectors by name, with what they take."""

OF_ONE = {
    **OBSERVATIONS, **ACTIONS, **REWARDS, "RecordEpisodeStatistics": {}, "Autoreset": {}, "PassiveEnvChecker": {},
    "OrderEnforcing": {}, "RenderCollection": {}, "AddRenderObservation": {}, "TimeAwareObservation": {},
    "DelayObservation": {"delay": 2}, "FrameStackObservation": {"stack_size": 3}, "MaxAndSkipObservation": {"skip": 2},
    "TransformObservation": {"func": lambda seen: 2 * seen, "observation_space": SPACE},
    "TransformAction": {"func": lambda action: 0.5 * action, "action_space": HALVED}, "DiscretizeAction": {"bins": 3},
    "StickyAction": {"repeat_action_probability": 0.5}, "RepeatAction": {"num_repeats": 2},
    "TimeLimit": {"max_episode_steps": 2},
    "AddWhiteNoise": {"probability_of_noise_per_pixel": 0.5},
    "ObstructView": {"obstructed_pixels_ratio": 0.5, "obstruction_width": 4},
}  # fmt: skip
"""Wrappers of one environment."""

OTHERS = {
    "vector", "AtariPreprocessing", "FilterObservation", "GrayscaleObservation", "ResizeObservation",
    "RescaleObservation", "DiscretizeObservation",  # of other games, dictionaries, pictures, and bounded observations
    "HumanRendering", "RecordVideo",  # with pygame and moviepy
    "ArrayConversion", "JaxToNumpy", "JaxToTorch", "NumpyToTorch",  # environments of other arrays
}  # fmt: skip
"""Wrappers that apply to none of our observations, which are numbers without bounds, or need other packages."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wrappers_of_vectors_do_to_worlds_what_they_do_to_vectors_of_gymnasium() -> None:
    assert set(together.__all__) - OTHERS <= set(OF_VECTORS)
    for mode in AutoresetMode:
        made = partial(gymnasium.make_vec, ARM, 3, max_episode_steps=2)
        pair = [made(autoreset_mode=mode), made("sync", vector_kwargs={"autoreset_mode": mode})]
        for name, options in OF_VECTORS.items():
            if not hasattr(together, name):
                continue  # of a later version
            if mode is AutoresetMode.SAME_STEP and "Observation" in name:
                with pytest.raises(ValueError, match="SAME_STEP"):  # by Gymnasium, which says what to take
                    getattr(together, name)(pair[0], **options)
                continue
            if mode is not AutoresetMode.NEXT_STEP and name == "NormalizeObservation":
                continue  # likewise
            wrapped = [getattr(together, name)(envs, **options) for envs in pair]
            seen, expected = (envs.reset(seed=4)[0] for envs in wrapped)
            assert np.array_equal(seen, expected) and seen in wrapped[0].observation_space
            wrapped[0].action_space.seed(0)
            for _ in range(5):
                actions = wrapped[0].action_space.sample()
                *found, told = wrapped[0].step(actions.copy())
                *wanted, others = wrapped[1].step(actions.copy())
                assert found[0] in wrapped[0].observation_space
                for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
                    assert a.dtype == b.dtype and np.array_equal(a, b) if k != 1 else a == pytest.approx(b, rel=1e-5)
                if name == "RecordEpisodeStatistics":
                    assert ("episode" in told) == (found[3].any()) == ("episode" in others)
                    for key in told.get("episode", {}).keys() - {"t"}:
                        assert np.array_equal(told["episode"][key], others["episode"][key])
                ended = found[2] | found[3]
                if mode is AutoresetMode.DISABLED and ended.any():
                    for envs in wrapped:
                        envs.reset(options={"reset_mask": ended.copy()})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wrappers_of_one_environment() -> None:
    """They apply, observations are of their space, and episodes end and begin."""
    assert set(singly.__all__) - OTHERS <= set(OF_ONE)
    env = gymnasium.make(ARM, render_mode="rgb_array", size=(32, 24), max_episode_steps=8)
    for name, options in OF_ONE.items():
        if not hasattr(singly, name):
            continue  # of a later version
        wrapped = getattr(singly, name)(env, **options)
        wrapped.action_space.seed(0)
        seen, _ = wrapped.reset(seed=4)
        assert seen in wrapped.observation_space
        for _ in range(8):
            seen, reward, _, truncated, told = wrapped.step(wrapped.action_space.sample())
            assert seen in wrapped.observation_space and np.isfinite(reward)
            if truncated:
                break
        assert truncated and ("episode" in told) == (name == "RecordEpisodeStatistics")
        if name in ("RenderCollection", "AddWhiteNoise", "ObstructView"):
            assert np.shape(wrapped.render())[-3:] == (24, 32, 3)
        first = wrapped.reset(seed=4)[0]
        assert first in wrapped.observation_space
        if "Normalize" not in name:
            assert data_equivalence(first, wrapped.reset(seed=4)[0], exact=name != "AddRenderObservation")


def test_vectors_are_registered_and_statistics_know_of_resets_of_some() -> None:
    envs = gymnasium.make_vec("delassus/Go1Velocity-v0", num_envs=2, generic=True, episode=0.06)
    assert envs.spec.id == "delassus/Go1Velocity-v0" and envs.render_mode is None and not envs.closed
    envs = together.RecordEpisodeStatistics(together.ClipAction(envs))
    assert envs.reset(seed=0)[0].shape == (2, 50)
    gained = sum(envs.step(envs.action_space.sample())[1] for _ in range(2))
    _, rewards, _, truncated, infos = envs.step(np.ones((2, 12), np.float32))
    assert truncated.all() and infos["episode"]["l"].tolist() == [3, 3]
    assert np.allclose(infos["episode"]["r"], gained + rewards, atol=1e-6)
    envs.step(np.ones((2, 12), np.float32))
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.episode_lengths.tolist() == envs.unwrapped.steps.tolist() == [0, 1]
    envs.close()
    assert envs.unwrapped.closed


def test_vectors_are_rendered() -> None:
    """Each world as it is rendered alone; with the end of an episode, but for autoreset in the same step."""
    made = partial(gymnasium.make_vec, ARM, 2, render_mode="rgb_array", size=(48, 32), max_episode_steps=1)
    kwargs = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    envs, others = made(**kwargs), made("sync", vector_kwargs=kwargs)
    assert envs.metadata["render_fps"] == 50 and envs.render_mode == "rgb_array"
    with pytest.raises(DelassusError, match="render: expected a reset before it"):
        envs.render()
    for each in (envs, others):
        each.reset(seed=1)
    pictures = []
    for _ in range(2):
        pictures.append(np.array(envs.render()))
        assert pictures[-1].shape == (2, 32, 48, 3) and np.array_equal(pictures[-1], others.render())
        assert np.array_equal(envs.call("render"), pictures[-1])
        for each in (envs, others):
            each.step(np.ones((2, 3), np.float32))
    assert len({picture.tobytes() for both in pictures for picture in both}) == 4
    assert delassus.gym.ArmReach(2).render() is None and delassus.gym.ArmReach(2).call("render") == (None, None)
    for wrong in ("human", "", 1):
        with pytest.raises(DelassusError, match="render_mode"):
            delassus.gym.ArmReach(2, render_mode=wrong)


def test_adapters_take_worlds_of_one_mode() -> None:
    for adapted in (delassus.gym.adapters.stable_baselines3, delassus.gym.adapters.rsl_rl):
        try:
            adapted(delassus.gym.ArmReach(2, autoreset_mode="NextStep"))
        except DelassusError as error:
            assert "pip install 'delassus[" in str(error) or "envs: expected" in str(error)
        else:
            raise AssertionError("taken")


@pytest.mark.filterwarnings("ignore")
def test_vectors_of_stable_baselines3_and_torch_are_these_worlds() -> None:
    """The same numbers; last observations, cut or not; seeds, options and pictures as other vectors of it have them."""
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.vec_env import VecEnv, VecMonitor

    made = partial(delassus.gym.Go1Velocity, 3, generic=True, max_episode_steps=3)
    worlds, envs = made(), delassus.gym.adapters.stable_baselines3(made(render_mode="rgb_array", size=(32, 24)))
    assert isinstance(envs, VecEnv) and envs.seed(5) == [5, 6, 7]
    envs.set_options({"command": (0.5, 0, 0)})
    assert np.array_equal(envs.reset(), worlds.reset(seed=5, options={"command": (0.5, 0, 0)})[0])
    for each in (worlds, envs.unwrapped.envs):
        each.q[1, 2] = 0.1  # a fall, in the first step
    actions = np.ones((3, 12), np.float32)
    for k in range(3):
        seen, rewards, terminated, truncated, infos = worlds.step(actions)
        found = envs.step(actions)
        ended = terminated | truncated
        assert np.array_equal(found[0], seen) and np.array_equal(found[1], rewards) and np.array_equal(found[2], ended)
        assert ended.tolist() == [[False, True, False], [False] * 3, [True, False, True]][k]
        for told, end, final, cut in zip(found[3], ended, infos.get("final_obs", seen), truncated, strict=True):
            assert set(told) == ({"terminal_observation", "TimeLimit.truncated"} if end else set())
            assert not end or (
                np.array_equal(told["terminal_observation"], final) and told["TimeLimit.truncated"] == cut
            )
    assert not np.array_equal(envs.reset(), worlds.reset(seed=5)[0])  # a seed and options hold once
    assert envs.render().shape == (48, 64, 3) and len(envs.get_images()) == 3 and envs.render_mode == "rgb_array"
    assert envs.get_attr("longest", [0, 1]) == [3, 3] and envs.env_is_wrapped(VecMonitor) == [False] * 3
    assert envs.env_method("registered_steps") == [1000] * 3 and envs.get_attr("render_mode", 1) == ["rgb_array"]
    envs.set_attr("longest", 4)
    for call in (partial(envs.set_attr, "longest", 4, 0), partial(envs.env_method, "scene", indices=[0])):
        with pytest.raises(DelassusError, match="all worlds"):
            call()
    envs.set_options([{}, {"command": (0, 0, 0)}, {}])
    with pytest.raises(DelassusError, match="options"):
        envs.reset()
    check_env(delassus.gym.World(delassus.gym.ArmReach))


def test_vectors_of_rsl_rl_and_torch_are_these_worlds() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("rsl_rl")
    worlds, made = (delassus.gym.Go1Velocity(3, generic=True, max_episode_steps=3) for _ in range(2))
    for each in (worlds, made):
        each.reset(seed=5)
        assert not each.reset()[1]
    made.reset(seed=5)
    envs = delassus.gym.adapters.rsl_rl(made)
    assert (envs.num_envs, envs.num_actions, envs.max_episode_length, str(envs.device)) == (3, 12, 3, "cpu")
    assert np.array_equal(envs.get_observations()["policy"], worlds.observations)
    for each in (worlds, made):
        each.q[1, 2] = 0.1  # a fall, in the first step
    envs.episode_length_buf = torch.tensor([0, 0, 1])
    worlds.steps[:] = [0, 0, 1]
    with torch.inference_mode():
        for k in range(3):
            seen, rewards, terminated, truncated, _ = worlds.step(np.ones((3, 12), np.float32))
            found = envs.step(torch.ones(3, 12))
            assert np.array_equal(found[0]["policy"], seen) and np.array_equal(found[1], rewards)
            assert np.array_equal(found[2], terminated | truncated) and np.array_equal(found[3]["time_outs"], truncated)
            assert found[2].tolist() == [[False, True, False], [False, False, True], [True, False, False]][k]
            assert np.array_equal(envs.episode_length_buf, worlds.steps)
    with pytest.raises(DelassusError, match="envs"):
        delassus.gym.adapters.rsl_rl(together.ClipAction(made))
