"""Other systems that observe a whole network, on the same fabrics: their requirements, costs and coverage."""

from __future__ import annotations

from . import hula, int_label, int_path, pingmesh, postcards, sampled_int
from .rival import Probes, Rival, Round

RIVALS: dict[str, Rival] = {
    module.RIVAL.name: module.RIVAL
    for module in (int_label, int_path, hula, pingmesh, sampled_int, postcards)
}
"""Systems that cover a network, by name; PINT, which traces one flow, is in `pint`."""

__all__ = ["RIVALS", "Probes", "Rival", "Round"]
