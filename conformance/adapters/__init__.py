"""Where engines meet the conformance layer: the only modules that import one."""
