"""Which cgroup, process or virtual machine is which unit, and when it lived."""
