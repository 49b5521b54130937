"""The one way in which this engine says that it does not do something."""


class UnsupportedFeature(NotImplementedError):
    """A vLLM feature outside the scope of the reference was asked for."""

    def __init__(self, feature: str) -> None:
        super().__init__(
            f"the reference engine does not cover {feature}; in scope: scheduling on one rank"
        )
        self.feature = feature


def refuse(feature: str, when: object) -> None:
    """Raise :class:`UnsupportedFeature` naming ``feature`` if ``when`` is true."""
    if when:
        raise UnsupportedFeature(feature)
