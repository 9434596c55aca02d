from cached_path import add_scheme_client, cached_path

from elmo_plugin.plugin.data.local_scheme import LocalSchemeClient


class Greeting(LocalSchemeClient):
    scheme = "greeting"

    def get_etag(self) -> str:
        return "1"

    def content(self) -> bytes:
        return b"hello"


def test_nothing_says_that_it_downloads(tmp_path, capfd) -> None:
    """Expected: the content, and no output, whereas `cached_path` says for other schemes that it
    downloads the address."""
    add_scheme_client(Greeting)
    path = cached_path("greeting://anyone", cache_dir=tmp_path)
    assert path.read_bytes() == b"hello"
    printed = capfd.readouterr()
    assert (printed.out + printed.err).strip() == ""
