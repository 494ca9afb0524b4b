"""Publishes the batches of cases.json as an engine does, live and on request, under the orders of whoever starts it.

Usage: publisher.py LAYOUT FRAMES BUFFER; FRAMES = 3 or 4, those of a replayed batch behind the empty one; BUFFER = batches kept for replay.
Prints one line of JSON with the addresses, then obeys a line at a time and answers each with `ok`:
  send N   publishes batch N      lose N   as send, but it does not go out
  heard    waits until somebody has subscribed: what is sent before goes to nobody
  restart  a new process takes over: the counter begins at 0, nothing is kept
  end      closes down
"""

import collections
import json
import sys
import threading

import zmq

from engine_events import payloads

END = (-1).to_bytes(8, "big", signed=True)


class Publisher:
    def __init__(self, layout: str, frames: int, buffer: int) -> None:
        self.context = zmq.Context()
        # As PUB on the wire, and it tells of subscriptions.
        self.live = self.context.socket(zmq.XPUB)
        self.live.set_hwm(100_000)
        self.replay = self.context.socket(zmq.ROUTER)
        self.payloads = payloads(layout)
        self.frames = frames
        self.topic = b"kv-events"
        self.kept: collections.deque = collections.deque(maxlen=buffer)
        self.sequence = 0

    def bind(self) -> dict:
        addresses = {}
        for name, socket in (("live", self.live), ("replay", self.replay)):
            socket.bind("tcp://127.0.0.1:0")
            addresses[name] = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return addresses

    def send(self, number: int, lost: bool = False) -> None:
        payload = self.payloads[number]
        sequence = self.sequence
        self.sequence += 1
        self.kept.append((sequence, payload))
        if not lost:
            self.live.send_multipart((self.topic, sequence.to_bytes(8, "big"), payload))

    def heard(self) -> None:
        self.live.recv()

    def restart(self) -> None:
        self.sequence = 0
        self.kept.clear()

    def serve_replay(self) -> None:
        frames = self.replay.recv_multipart()
        if len(frames) != 3:
            return
        client, _, start = frames
        topic = [self.topic] if self.frames == 4 else []
        end = [b""] if self.frames == 4 else []
        for sequence, payload in list(self.kept):
            if sequence >= int.from_bytes(start, "big"):
                self.replay.send_multipart([client, b"", *topic, sequence.to_bytes(8, "big"), payload])
        self.replay.send_multipart([client, b"", *end, END, b""])


def obey(publisher: Publisher, line: str) -> bool:
    order, *rest = line.split()
    if order == "send":
        publisher.send(int(rest[0]))
    elif order == "lose":
        publisher.send(int(rest[0]), lost=True)
    elif order == "heard":
        publisher.heard()
    elif order == "restart":
        publisher.restart()
    return order != "end"


def main() -> None:
    layout, frames, buffer = sys.argv[1:4]
    publisher = Publisher(layout, int(frames), int(buffer))
    # Orders come in by a thread of their own, and are done on this one, as sockets belong to one thread.
    orders = publisher.context.socket(zmq.PULL)
    orders.bind("inproc://orders")

    def read_orders() -> None:
        push = publisher.context.socket(zmq.PUSH)
        push.connect("inproc://orders")
        for line in sys.stdin:
            push.send_string(line)
        push.send_string("end")
        push.close()

    print(json.dumps(publisher.bind()), flush=True)
    threading.Thread(target=read_orders, daemon=True).start()
    poller = zmq.Poller()
    poller.register(orders, zmq.POLLIN)
    poller.register(publisher.replay, zmq.POLLIN)
    going = True
    while going:
        for socket, _ in poller.poll():
            if socket is publisher.replay:
                publisher.serve_replay()
            else:
                going = obey(publisher, orders.recv_string())
                print("ok", flush=True)
    for socket in (orders, publisher.live, publisher.replay):
        socket.close(linger=0)


if __name__ == "__main__":
    main()
