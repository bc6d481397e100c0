#!/usr/bin/env python3
"""redis-py against a running server: RESP2 and RESP3, pipelines, many connections, bad input.

The server is flushed. Exits with an error at the first thing that is not as Redis does it.
"""
import argparse
import socket
import threading

import redis


def expect(found, wanted, what):
    if found != wanted:
        raise SystemExit(f"{what}: got {found!r}, wanted {wanted!r}")


def basics(client, protocol):
    expect(client.ping(), True, "ping")
    expect(client.set("k", "v"), True, "set")
    expect(client.get("k"), b"v", "get")
    expect(client.get("missing"), None, "get of a missing key")
    expect(client.set("k", "w", nx=True), None, "set nx")
    expect(client.set("k", "w", get=True), b"v", "set get")
    expect(client.incr("n", 5), 5, "incr")
    expect(client.incrbyfloat("f", 128), 128.0, "incrbyfloat")
    client.incrbyfloat("f", "0.1")
    expect(client.get("f"), b"128.10000000000000001", "80 bits")
    expect(client.setbit("b", 7, 1), 0, "setbit")
    expect(client.bitcount("b"), 1, "bitcount")
    expect(client.bitfield("bf").incrby("u8", 0, 255).incrby("u8", 0, 2).execute(), [255, 1], "bitfield")
    expect(client.expire("k", 100), True, "expire")
    expect(0 < client.ttl("k") <= 100, True, "ttl")
    expect(client.object("encoding", "n"), b"int", "object encoding")
    expect(client.client_setname("worker"), True, "client setname")
    expect(client.client_getname() in ("worker", b"worker"), True, "client getname")
    expect(client.client_info()["resp"], str(protocol), "client info")
    expect(client.info()["redis_version"], "8.2.3", "info")
    expect(client.config_get("databases")["databases"], "16", "config get")
    expect(client.command_count() > 50, True, "command count")
    try:
        client.execute_command("NOSUCHCOMMAND", "x")
        raise SystemExit("an unknown command was accepted")
    except redis.ResponseError as error:
        expect("unknown command" in str(error), True, "unknown command")


def several_keys(client):
    names = [f"several:{index}" for index in range(50)]
    expect(client.mset({name: name for name in names}), True, "mset")
    expect(client.mget(names), [name.encode() for name in names], "mget")
    expect(client.exists(*names, "missing"), 50, "exists")
    expect(client.rename(names[0], "several:renamed"), True, "rename")
    expect(client.copy("several:renamed", names[0]), True, "copy")
    expect(sorted(client.keys("several:*")), sorted(set(client.scan_iter("several:*"))), "scan")
    expect(client.delete(*names, "several:renamed"), 51, "del")


def transactions(client):
    client.mset({"tx:a": 1, "tx:b": 2, "tx:c": 3})
    with client.pipeline(transaction=True) as pipe:
        pipe.watch("tx:a", "tx:b")
        pipe.multi()
        pipe.incr("tx:a").incr("tx:b").incr("tx:c").mget("tx:a", "tx:b", "tx:c")
        expect(pipe.execute(), [2, 3, 4, [b"2", b"3", b"4"]], "exec over several keys")
    with client.pipeline(transaction=True) as pipe:
        pipe.watch("tx:b")
        client.set("tx:b", "changed")
        pipe.multi()
        pipe.set("tx:a", "lost")
        try:
            pipe.execute()
            raise SystemExit("a watched key changed, and the transaction ran")
        except redis.WatchError:
            expect(client.get("tx:a"), b"2", "a transaction that did not run")


def publishing(client):
    listener = client.pubsub()
    listener.subscribe("news")
    listener.psubscribe("ne*")
    words = [listener.get_message(timeout=5)["type"] for _ in range(2)]
    expect(words, ["subscribe", "psubscribe"], "confirmations")
    expect(client.pubsub_numsub("news")[0][1], 1, "pubsub numsub")
    for number in range(100):
        expect(client.publish("news", number), 2, "publish")
    heard = [listener.get_message(timeout=5)["data"] for _ in range(200)]
    expect(heard, [str(number // 2).encode() for number in range(200)], "messages")
    listener.close()


def pipelines(client):
    pipe = client.pipeline(transaction=False)
    for index in range(5000):
        pipe.set(f"p:{index}", index)
    expect(all(pipe.execute()), True, "pipeline of sets")
    pipe = client.pipeline(transaction=False)
    for index in range(5000):
        pipe.get(f"p:{index}")
    expect(pipe.execute(), [str(index).encode() for index in range(5000)], "pipeline of gets")
    large = bytes(range(256)) * 40_000
    pipe = client.pipeline(transaction=False)
    pipe.set("large", large).strlen("large").get("large").delete("large")
    expect(pipe.execute(), [True, len(large), large, 1], "a value of 10 MB")


def many_connections(port, protocol, count=200):
    failures = []

    def work(number):
        try:
            client = redis.Redis(port=port, protocol=protocol)
            for index in range(50):
                key = f"c:{number}:{index % 5}"
                client.set(key, index)
                if client.get(key) != str(index).encode():
                    failures.append(key)
            client.close()
        except Exception as error:  # Whatever goes wrong is the result.
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(failures, [], f"{count} connections")


def bad_input(port):
    for request in (b"*1\r\n$1073741824\r\n", b"*3000000000\r\n", b"\xff\xfe\r\n" * 10, b"*1\r\nx\r\n",
                    b'SET k "abc\r\n', b"*1\r\n" + b"$" + b"1" * 70000):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as conn:
            conn.sendall(request)
            answer = conn.recv(4096)
            expect(answer.startswith(b"-ERR"), True, f"answer to {request[:20]!r}: {answer!r}")
    for _ in range(2000):
        socket.create_connection(("127.0.0.1", port)).close()
    expect(redis.Redis(port=port).ping(), True, "ping after bad input")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    for protocol in (2, 3):
        client = redis.Redis(port=args.port, protocol=protocol)
        client.flushall()
        basics(client, protocol)
        pipelines(client)
        several_keys(client)
        transactions(client)
        publishing(client)
        many_connections(args.port, protocol)
    bad_input(args.port)
    print("redis-py: passed")


main()
