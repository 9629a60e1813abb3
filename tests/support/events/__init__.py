"""Events and traffic with a known truth, for tests of detection, history and exports."""
