"""Users' SQL. Each query runs in a process that can only read history and answer."""
