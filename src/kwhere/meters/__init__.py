"""Energy sources behind one seam: each module here is one `Meter`; found by walking the package."""
