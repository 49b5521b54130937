"""The fast engine: structure-of-arrays state on a device. Not built yet."""
