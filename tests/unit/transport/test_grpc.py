import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet import MESSAGES, container, devices, pod, serving

from kwhere.core.errors import SourceError, Unavailable
from kwhere.transport.grpc import ask

LIST = "/v1.PodResourcesLister/List"


def test_a_real_server_answers(tmp_path: Path) -> None:
    with serving(tmp_path) as kubelet:
        kubelet.pods = [pod("ml", "train", container("main", devices("nvidia.com/gpu", "GPU-1")))]

        answer = ask(kubelet.path, LIST)

    assert MESSAGES["List"].FromString(answer).pod_resources[0].name == "train"


def test_a_long_answer_comes_whole(tmp_path: Path) -> None:
    with serving(tmp_path) as kubelet:
        kubelet.pods = [pod("ml", f"pod-{n}", container("x" * 900)) for n in range(2000)]  # 2 MB: many frames

        answer = ask(kubelet.path, LIST)

    assert len(MESSAGES["List"].FromString(answer).pod_resources) == 2000


def test_an_answer_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as kubelet:
        kubelet.pods = [pod("ml", "x" * 5000)]

        with pytest.raises(SourceError, match="at most 1000 bytes"):
            ask(kubelet.path, LIST, limit_bytes=1000)


def test_an_empty_answer_is_an_answer(tmp_path: Path) -> None:
    with serving(tmp_path) as kubelet:
        assert ask(kubelet.path, LIST) == b""


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, "permission"),
        (grpc.StatusCode.UNIMPLEMENTED, "unsupported"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "busy"),
        (grpc.StatusCode.UNAVAILABLE, "absent"),
    ],
)
def test_what_a_server_refuses_is_said(tmp_path: Path, status: grpc.StatusCode, reason: str) -> None:
    with serving(tmp_path) as kubelet:
        kubelet.fail = status

        with pytest.raises(Unavailable, match="as the test wants") as caught:
            ask(kubelet.path, LIST)

    assert caught.value.reason == reason


def test_an_error_of_the_servers_own_is_nonsense(tmp_path: Path) -> None:
    with serving(tmp_path) as kubelet:
        kubelet.fail = grpc.StatusCode.INTERNAL

        with pytest.raises(SourceError, match="status 13"):
            ask(kubelet.path, LIST)


def test_a_server_that_does_not_come_back_is_left(tmp_path: Path) -> None:
    done = Event()
    with serving(tmp_path) as kubelet:
        kubelet.hold = done.wait
        try:
            with pytest.raises(Unavailable) as caught:
                ask(kubelet.path, LIST, timeout_seconds=0.3)
        finally:
            done.set()

    assert caught.value.reason == "timeout"


def test_no_socket_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        ask(tmp_path / "none.sock", LIST)

    assert caught.value.reason == "absent"


def test_a_path_too_long_for_a_socket_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        ask(tmp_path / ("x" * 200), LIST)


@contextmanager
def speaking(data: bytes) -> Iterator[Path]:
    """Serve bytes that mean nothing in particular."""
    with TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listener:
        path = Path(directory) / "s"
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass

        thread = Thread(target=serve)
        thread.start()
        yield path
        thread.join()


SETTINGS = b"\0\0\0\4\0\0\0\0\0"
FRAMES = st.builds(
    lambda kind, flags, stream, body: len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream + body,
    st.integers(0, 10),
    st.sampled_from([0, 1, 4, 5, 8]),
    st.sampled_from([b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\3"]),
    st.binary(max_size=24),
)


@settings(max_examples=60)
@given(st.binary(max_size=60) | st.lists(FRAMES, max_size=4).map(lambda frames: SETTINGS + b"".join(frames)))
def test_any_bytes_are_an_error_of_ours(data: bytes) -> None:
    with speaking(data) as path, pytest.raises((Unavailable, SourceError)):
        ask(path, LIST, timeout_seconds=2)
