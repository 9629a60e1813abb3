"""SQL of users, each query in a process that can only read and answer."""
