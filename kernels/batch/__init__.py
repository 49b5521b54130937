"""The persistent batch: what a worker keeps on its device, changed where a step changed it."""
