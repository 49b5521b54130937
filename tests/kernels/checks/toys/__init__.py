"""A package of kernels as a contributor would add one, with everything wrong that can be."""
