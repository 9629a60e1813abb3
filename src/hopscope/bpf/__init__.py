"""The kernel's side of a collector: BPF programs in C, and what loads them and reads what they send up."""
