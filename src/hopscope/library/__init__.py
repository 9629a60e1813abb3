"""The Python API, which `import hopscope` provides."""
