"""Grafana's dashboards of what Hopscope exports: each panel once, with a query for each kind of database."""
