"""A program that floods: many connections that send requests again and again until its input ends.

It is a process of its own, so that whoever measures the server does not wait for the flood itself, and needs nothing
but Python. Its first line of input says what to send; it writes a line when the flood has built up, and at the end how
many answers of each status there were and how many clients left.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import suppress

BUILT_UP = 60  # answers


def main():
    given = json.loads(sys.stdin.readline())
    requests = [text.encode() for text in given["requests"]]
    ended, counts, said = threading.Event(), {}, threading.Event()

    def count(what):
        counts[what] = counts.get(what, 0) + 1
        if not said.is_set() and sum(counts.values()) >= min(BUILT_UP, given["connections"]):
            said.set()
            print("built up", flush=True)

    async def one(number):
        turn = number
        while not ended.is_set():
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(given["host"], given["port"])
                try:
                    writer.write(requests[turn % len(requests)])
                    async with asyncio.timeout(given["patience_s"]):
                        line = await reader.readline()
                        count(line.split(b" ")[1].decode() if line else "closed")
                        await reader.read()
                except TimeoutError:
                    count("left")
                finally:
                    writer.transport.abort()
            turn += given["connections"]
            await asyncio.sleep(0.02)

    async def all_of_them():
        await asyncio.gather(*(one(number) for number in range(given["connections"])))

    thread = threading.Thread(target=asyncio.run, args=(all_of_them(),))
    thread.start()
    sys.stdin.read()
    ended.set()
    thread.join()
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
