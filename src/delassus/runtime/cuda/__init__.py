"""Kernels on NVIDIA's GPUs: the driver, arrays on a device, calls and launches."""
