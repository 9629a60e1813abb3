"""Grafana dashboards for exported data: each panel is defined once, with a query per kind of database."""
