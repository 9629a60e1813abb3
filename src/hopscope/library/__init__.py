"""What `import hopscope` offers."""
