import pytest

from elmo_plugin.adapters import one_token


@pytest.mark.parametrize(
    "text, token",
    [("dog", "dog"), ("New York", "New_York"), ("1\u00a0000", "1_000"), ("\u3000", "_"), ("", "_")],
)
def test_one_token(text: str, token: str) -> None:
    """By definition: a token is not empty and has no whitespace."""
    assert one_token(text) == token
