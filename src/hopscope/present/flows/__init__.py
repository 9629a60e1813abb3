"""Live and past flows: search, groups, paths over time, latency by hop."""
