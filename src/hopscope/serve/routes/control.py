"""Routes of the switches that the controller reaches, and of their watch lists."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from ...control.status import read_status
from ...control.topology import Link
from ...present.events import when
from ...present.topology import topology
from ..context import Context, Ctx
from ..models import control as m
from ..models.common import Port
from . import show
from .parameters import NodeName
from .router import api_router

router = api_router("control")


@router.get("/control/switches", summary="Switches that the controller reaches")
async def switches(context: Ctx) -> m.SwitchList:
    """For each switch: how it is reached, its desired and actual state, and the last error."""

    def work() -> m.SwitchList:
        found = read_status(context.state.regions)
        items = [_switch(context, each) for each in found]
        return m.SwitchList(total=len(items), in_sync=sum(each.in_sync for each in items), items=items)

    return await context.run(work)


@router.get("/control/watch", summary="Rules of the watch lists")
async def watch(context: Ctx) -> m.WatchRules:
    """The packets that get INT, by switch."""
    return m.WatchRules(items=(await context.ask_collector({"watch": {}}))["watch"])


@router.post("/control/watch", summary="Add a rule")
async def add(context: Ctx, request: Request, rule: m.NewWatchRule) -> m.WatchRules:
    """The rule is added last, and applies until the collector restarts; returns all rules."""
    added = rule.model_dump(mode="json")
    answer = await context.change(request, {"set_watch": {"add": [added]}}, "watch.add", after=added)
    return m.WatchRules(items=answer["watch"])


@router.put("/control/watch", summary="Set all rules")
async def replace(context: Ctx, request: Request, rules: m.NewWatchRules) -> m.WatchRules:
    """The rules replace those in force until the collector restarts."""
    before = (await context.ask_collector({"watch": {}}))["watch"]
    after = rules.model_dump(mode="json")["items"]
    change = {"set_watch": {"set": after}}
    answer = await context.change(request, change, "watch.set", before=before, after=after)
    return m.WatchRules(items=answer["watch"])


@router.get("/topology", summary="Links between switches")
async def links(context: Ctx, node: NodeName = None) -> m.Topology:
    """Links from the file, LLDP and paths of live flows; `node`: only those of one switch."""
    node_id = None if node is None else context.node(node)

    def work() -> m.Topology:
        items = [_link(context, link) for link in topology(context.state) if node_id in (None, link.node)]
        return m.Topology(total=len(items), items=items)

    return await context.run(work)


def _link(context: Context, link: Link) -> m.TopologyLink:
    far = None if link.next_node is None else show.node(context.names, link.next_node)
    return m.TopologyLink(
        node=show.node(context.names, link.node),
        port=Port(id=link.port, name=context.names.port(link.node, link.port)),
        next_node=far,
        next_port=None
        if far is None or link.next_port is None
        else Port(id=link.next_port, name=context.names.port(far.id, link.next_port)),
        neighbour=link.next_name or None,
        sources=list(link.sources),
        disputed=link.disputed,
    )


def _switch(context: Context, found: dict[str, Any]) -> m.ControlledSwitch:
    error_ns = found.pop("error_ns")
    shown = {
        "node": show.node(context.names, found["node"]),
        "since": when(found.pop("since_ns")),
        "error_time": when(error_ns),
    }
    return m.ControlledSwitch.model_validate(found | shown)
