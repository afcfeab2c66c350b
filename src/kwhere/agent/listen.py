"""The sockets that the agent listens on: by address, by path, or handed over by systemd."""

import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from kwhere.core.errors import ConfigError

KEY = "web.listen_addresses"
_FIRST_SYSTEMD_DESCRIPTOR = 3
_PORTS_TO_TRY = 20
_BACKLOG = 128
_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


def open_sockets(addresses: Sequence[str], *, next_free_port: bool = False) -> list[socket.socket]:
    """Return sockets that listen on every address. Raises ConfigError, and then holds none."""
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            sockets += _open(address, next_free_port)
    except BaseException:
        close_sockets(sockets)
        raise
    if not sockets:
        raise ConfigError(f"{KEY}: expected an address, found none")
    return sockets


def systemd_sockets(environ: Mapping[str, str]) -> list[socket.socket]:
    """Return the stream sockets that systemd handed to this process (sd_listen_fds(3)), again at each call.

    Raises ConfigError.
    """
    if environ.get("LISTEN_PID") != str(os.getpid()) or not environ.get("LISTEN_FDS", "").isdecimal():
        raise ConfigError("web.systemd_socket: expected sockets from systemd (LISTEN_PID, LISTEN_FDS), found none")
    sockets = []
    for offset in range(int(environ["LISTEN_FDS"])):
        descriptor = _FIRST_SYSTEMD_DESCRIPTOR + offset
        os.set_inheritable(descriptor, False)
        handed = socket.socket(fileno=os.dup(descriptor))
        if handed.type != socket.SOCK_STREAM:
            raise ConfigError(f"web.systemd_socket: descriptor {descriptor} is no stream socket")
        handed.setblocking(False)
        sockets.append(handed)
    return sockets


def close_sockets(sockets: Sequence[socket.socket], *, remove_paths: bool = True) -> None:
    """Close sockets and remove the paths of those that have one, unless another made them and will use them again."""
    for listening in sockets:
        name = listening.getsockname() if listening.family == socket.AF_UNIX else None
        listening.close()
        if remove_paths and isinstance(name, str) and name:
            Path(name).unlink(missing_ok=True)


def is_local(listening: socket.socket) -> bool:
    """Return whether only this machine can reach the socket."""
    if listening.family == socket.AF_UNIX:
        return True
    return is_loopback(str(listening.getsockname()[0]))


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address, an IPv4 one inside IPv6 included."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def address_of(listening: socket.socket) -> str:
    """Return the address as a person writes it: `127.0.0.1:9810`, `[::1]:9810`, `unix:/run/x`."""
    name = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        return f"unix:{name}"
    host, port = name[:2]
    return f"[{host}]:{port}" if listening.family == socket.AF_INET6 else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `[IPV6]:PORT` or `:PORT`. Raises ConfigError."""
    host, separator, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or "[" in host:
        raise ConfigError(f"{KEY}: expected [IPV6]:PORT, found {address!r}")
    if not separator or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise ConfigError(f"{KEY}: expected HOST:PORT or unix:PATH, found {address!r}")
    return host, int(port)


def _open(address: str, next_free_port: bool) -> list[socket.socket]:
    if address.startswith("unix:"):
        return [_open_path(Path(address.removeprefix("unix:")))]
    host, port = split_address(address)
    ports = range(port, min(port + _PORTS_TO_TRY, 65535) + 1) if next_free_port and port else (port,)
    for candidate in ports:
        try:
            return _open_port(host, candidate)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or candidate == ports[-1]:
                raise ConfigError(f"{KEY}: {address}: {_reason(error)}") from error
    raise ConfigError(f"{KEY}: {address}: no port to try")


def _open_port(host: str, port: int) -> list[socket.socket]:
    if not host:
        return [_every_interface(port)]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, name in found if port else found[:1]:
            sockets += _unless_absent(family, name, is_needed=len(found) == 1)
    except BaseException:
        close_sockets(sockets)
        raise
    if not sockets:
        raise OSError(errno.EADDRNOTAVAIL, "no such address")
    return sockets


def _unless_absent(family: int, name: object, *, is_needed: bool) -> list[socket.socket]:
    """`localhost` may name an IPv6 address on a machine that has none."""
    try:
        return [_listening(family, name, only_ipv6=True)]
    except OSError as error:
        if is_needed or error.errno not in _NO_SUCH_FAMILY:
            raise
        return []


def _every_interface(port: int) -> socket.socket:
    try:
        return _listening(socket.AF_INET6, ("::", port), only_ipv6=False)
    except OSError as error:
        if error.errno not in _NO_SUCH_FAMILY:
            raise
        return _listening(socket.AF_INET, ("0.0.0.0", port), only_ipv6=False)  # noqa: S104 - asked for by `:PORT`


def _listening(family: int, name: object, *, only_ipv6: bool) -> socket.socket:
    # Named, since asyncio turns Nagle's algorithm off for sockets that say they are TCP: else answers wait for 40 ms.
    protocol = 0 if family == socket.AF_UNIX else socket.IPPROTO_TCP
    listening = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(only_ipv6))
        listening.bind(name)  # type: ignore[arg-type]
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _open_path(path: Path) -> socket.socket:
    try:
        _remove_stale(path)
        listening = _listening(socket.AF_UNIX, str(path), only_ipv6=False)
        path.chmod(0o660)
    except OSError as error:
        raise ConfigError(f"{KEY}: unix:{path}: {_reason(error)}") from error
    return listening


def _remove_stale(path: Path) -> None:
    """Remove a socket that nobody listens on any more."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(errno.EADDRINUSE, "in use")


def _reason(error: OSError) -> str:
    words = {
        errno.EADDRINUSE: "taken by another process",
        errno.EACCES: "not permitted (ports below 1024 need root or CAP_NET_BIND_SERVICE)",
        errno.EADDRNOTAVAIL: "this machine has no such address",
    }
    return words.get(error.errno or 0, error.strerror or str(error))
