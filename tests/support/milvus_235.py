"""Run the Milvus server of the package `milvus` in a network namespace of its own, and pass connections on to it.

    unshare --map-root-user --net PYTHON milvus_235.py FOLDER LISTENER

It listens on all interfaces and on fixed ports, so it gets a network without any other computer. LISTENER is the file
descriptor of a socket that was opened outside, where the connections come from. PYTHON has the package, and nothing of
ours. The server ends with this process, and this one when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

HEALTH_PORT = 9091
SECONDS = 120  # that it may take to start
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
PR_SET_PDEATHSIG = 1


def raise_loopback() -> None:
    """Do what `ip link set lo up` does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        _, flags = struct.unpack("16sh", fcntl.ioctl(asking, SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0)))
        fcntl.ioctl(asking, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))


def unpacked() -> Path:
    """Unpack the program, once for all servers of this Python."""
    import milvus

    home = Path(sys.prefix, "milvus-server")
    home.mkdir(exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        milvus._initialize_data_files(home)
    return home / "bin"


def start(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the server with what the folder holds; return it and its port."""
    import milvus

    config = milvus.MilvusServerConfig(data_dir=str(folder))
    config.resolve()
    programs = unpacked()
    places = {"METRICS_PORT": str(HEALTH_PORT), "MILVUS_RUN_DIR": str(folder / "run"), "LD_LIBRARY_PATH": str(programs)}
    with (folder / "output.log").open("ab") as output:
        server = subprocess.Popen(
            [programs / "milvus", "run", "standalone"],
            cwd=folder,
            env={**os.environ, "DEPLOY_MODE": "STANDALONE", **places},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )
    return server, config.get("proxy_port")


def await_health(server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urlopen(f"http://127.0.0.1:{HEALTH_PORT}/healthz", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"Milvus is not well after {SECONDS} s, or ended with {server.poll()}")


async def pass_on(listener: socket.socket, port: int) -> None:
    """Pass connections on to the server, until the standard input is closed."""

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        except OSError:
            pass
        target.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))

    async with await asyncio.start_server(connect, sock=listener):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main() -> None:
    raise_loopback()
    server, port = start(Path(sys.argv[1]))
    await_health(server)
    asyncio.run(pass_on(socket.socket(fileno=int(sys.argv[2])), port))
    server.kill()


if __name__ == "__main__":
    main()
