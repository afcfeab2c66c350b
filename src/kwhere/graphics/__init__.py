"""GPUs of AMD and Intel: what the kernel's graphics drivers and AMD's library tell, behind the seam of `devices`."""
