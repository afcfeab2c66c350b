"""/proc, /sys and cgroupfs as frozen readings in the kernel's own units."""
