"""Every header by the name of its constant: for the dissector, the reference pages and tests."""

from __future__ import annotations

from . import layout
from .dta import layout as dta
from .fields import Header
from .label import layout as label
from .roce import cm
from .roce import layout as roce

MODULES = (layout, dta, roce, cm, label)
"""Modules that declare headers."""
HEADERS: dict[str, Header] = {
    name: value for module in MODULES for name, value in vars(module).items() if isinstance(value, Header)
}
