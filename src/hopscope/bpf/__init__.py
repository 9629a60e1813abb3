"""The collector's programs in the kernel: BPF programs in C, and the code that loads them and reads their
output.
"""
