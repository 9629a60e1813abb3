"""Network namespaces, links, switches and routers of a test's own."""
