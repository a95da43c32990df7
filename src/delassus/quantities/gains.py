"""Gains of the stabilisation of constraints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import real_array


@dataclass(frozen=True, slots=True)
class Baumgarte(Frozen):
    """Stabilisation: constraints ask for the acceleration ``−2 ζ ω (velocity error) − ω² (position error)``.

    Parameters
    ----------
    frequency : float
        ``ω``, in 1/s: errors die out as ``exp(−ω t)``; at most about 1 / (time step).
    damping : float
        Ratio ``ζ``; 1 is critical.

    Raises
    ------
    ConfigurationError
        A number that is negative or not finite, or gains that are not.

    Examples
    --------
    >>> Baumgarte(20.0).gains
    (40.0, 400.0)
    """

    frequency: float
    damping: float = 1.0

    def __post_init__(self) -> None:
        for name in ("frequency", "damping"):
            number = real_array(getattr(self, name))
            if number is None or number.shape != () or not np.isfinite(number) or number < 0:
                raise ConfigurationError(
                    f"{name} of Baumgarte", "a number that is not negative", shown(getattr(self, name)), "Try 20 and 1."
                )
            self._set_attributes(**{name: float(number)})
        if not max(self.gains) < np.inf:
            raise ConfigurationError("Baumgarte", "finite gains 2 ζ ω and ω²", shown(self), "Try 20 and 1.")

    @property
    def gains(self) -> tuple[float, float]:
        """Gains of velocity errors, ``2 ζ ω`` (1/s), and of position errors, ``ω²`` (1/s²)."""
        return 2.0 * self.damping * self.frequency, self.frequency * self.frequency
