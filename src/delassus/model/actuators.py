"""Actuators: forces on joints from control signals, as a robot's description says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from delassus.frozen import ByContent, Parts

Affine = tuple[float, float, float]
"""``c0 + c1 l + c2 l̇`` of a length and its rate."""


@dataclass(frozen=True, slots=True, eq=False)
class Actuator(ByContent):
    """An actuator whose force is ``gain · control + bias``, gain and bias affine in its length and its rate.

    A motor has a constant gain and no bias; a position servo the gain ``kp`` and the bias ``−kp l − kv l̇``.

    Attributes
    ----------
    name : str
    transmission : mapping of str to float
        Ratio of each joint that it acts on, by the joint's name: the length is ``l = Σ ratio q`` (rad or m), the
        force on a joint ratio times that of the actuator. Gears and the coefficients of fixed tendons make it.
    gain, bias : (3,) tuples of float
        Constant, and factors of length and of rate.
    control_range, force_range : (2,) tuples of float
        Least and greatest; what is beyond is cut off.
    """

    name: str
    transmission: Mapping[str, float]
    gain: Affine = (1.0, 0.0, 0.0)
    bias: Affine = (0.0, 0.0, 0.0)
    control_range: tuple[float, float] = (-inf, inf)
    force_range: tuple[float, float] = (-inf, inf)

    def __post_init__(self) -> None:
        self._set_attributes(transmission=MappingProxyType(dict(self.transmission)))

    def _parts(self) -> Parts:
        """Rebuild from the attributes; a mapping proxy does not pickle."""
        return type(self), (
            self.name, dict(self.transmission), self.gain, self.bias, self.control_range, self.force_range,
        )  # fmt: skip

    def prefixed(self, prefix: str) -> Actuator:
        """The actuator with a prefix on all names."""
        ratios = {prefix + joint: ratio for joint, ratio in self.transmission.items()}
        return Actuator(prefix + self.name, ratios, self.gain, self.bias, self.control_range, self.force_range)
