"""OpenAPI's description of all routes, as they answer."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from ..settings.configuration.descriptions import descriptions
from .access.bodies import BODY_BYTES
from .models import common as m

ABOUT = (
    "In-band Network Telemetry: live state, history and thresholds. Times are RFC 3339 with nanoseconds, "
    "latencies are in ns, occupancy and utilization in the units that the source sends; 64-bit numbers "
    'above 2^53 - 1 are decimal text. Errors are `{"error": "one line"}`.'
)
ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
"""Content of every error. If it were declared as a `model`, FastAPI would build its schema again for each
status of each route.
"""
_OF_ALL = {
    "421": "The Host header is another machine's, of a server on loopback",
    "500": "An error of the server, which its log names",
}
_OF_BODIES = {"413": f"The body is longer than {BODY_BYTES:,} bytes"}


class Application(FastAPI):
    """An application whose OpenAPI description has the docstrings of attributes, which are read on demand."""

    def openapi(self) -> dict[str, Any]:
        """OpenAPI's description of all routes."""
        if self.openapi_schema is None:
            found = super().openapi()
            _describe_fields(found["components"]["schemas"])
            for path in found["paths"].values():
                for method, operation in path.items():
                    _describe_errors(method, operation["responses"])
            for unused in ("HTTPValidationError", "ValidationError"):
                found["components"]["schemas"].pop(unused, None)
        return super().openapi()


def _describe_fields(schemas: dict[str, Any]) -> None:
    ahead = [m.Model]
    while ahead:
        model = ahead.pop()
        ahead += model.__subclasses__()
        for name, text in descriptions(model).items() if model.__name__ in schemas else ():
            if text:
                shown = model.model_fields[name].alias or name
                schemas[model.__name__]["properties"][shown].setdefault("description", text)


def _describe_errors(method: str, responses: dict[str, Any]) -> None:
    """Add the errors that are sent before a route is called; 422, which FastAPI describes, is 400 here."""
    responses.pop("422", None)
    for status, text in (_OF_ALL if method == "get" else _OF_ALL | _OF_BODIES).items():
        responses.setdefault(status, {"description": text, "content": ERROR})
