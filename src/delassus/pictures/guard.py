"""Who may connect to the viewer: the page that it serves itself, and nobody else.

A browser lets any page open a WebSocket to this machine, and says by the header Origin which page that is: without a
check, all of them could see the scene, play, pause and seek. The header Host says what the server was asked for as: a
name of somebody else there means that their name service leads here (DNS rebinding): their page would pass for ours.
"""

from __future__ import annotations

import http
import ipaddress
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

from delassus.errors import ConfigurationError, MissingDependencyError, require, shown

_swapping = threading.Lock()
"""Held while a server starts."""


def check_host(host: str) -> None:
    """Check that this machine can listen at an address, which viser would try for ever."""
    try:
        if not isinstance(host, str):
            raise TypeError("text is expected")
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listener:
            listener.bind(address)
    except (OSError, TypeError, ValueError) as error:
        advice = "Leave it out for this machine only; '0.0.0.0' is for the network."
        raise ConfigurationError("host", "an address of this machine", f"{shown(host)} ({error})", advice) from error


def is_own_page(hosts: list[str], origins: list[str], host: str) -> bool:
    """Whether all headers Host and Origin of a request for a WebSocket are those of the page of a server at a host."""
    if len(hosts) != 1 or origins != [f"http://{hosts[0]}"]:
        return False
    try:
        name = urlsplit(f"//{hosts[0]}").hostname or ""
        # an address, unlike a name, leads to one machine only
        return name in ("localhost", host, socket.gethostname().lower()) or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def start_server(host: str, port: int) -> Any:
    """Start a viser server that refuses what `is_own_page` does not let pass.

    viser has no option for this. So what it calls to serve is replaced for as long as it starts.

    Raises
    ------
    ConfigurationError
        A host that this machine cannot listen at.
    MissingDependencyError
        No viser, or one that starts its server in another way, which would not be guarded.
    """
    require("viser", "view", "the viewer")
    import viser
    from websockets.asyncio import server

    check_host(host)
    guarded = []

    class Serve(server.serve):
        def __init__(self, *arguments: Any, process_request: Any, **options: Any) -> None:
            def check(connection: Any, request: Any) -> Any:
                hosts, origins = (request.headers.get_all(name) for name in ("Host", "Origin"))
                if "Upgrade" not in request.headers or is_own_page(hosts, origins, host):
                    return process_request(connection, request)
                return connection.respond(http.HTTPStatus.FORBIDDEN, "Only the viewer's own page may connect to it.\n")

            guarded.append(self)
            super().__init__(*arguments, process_request=check, **options)

    with _swapping:
        original = server.serve
        try:
            vars(server).update(serve=Serve)
            started = viser.ViserServer(host=host, port=port, label="delassus", verbose=False)
        finally:
            vars(server).update(serve=original)
    if not guarded:
        started.stop()
        raise MissingDependencyError(
            "the viewer", "a version of viser whose server can be guarded", viser.__version__, "Install viser 1.1."
        )
    return started
