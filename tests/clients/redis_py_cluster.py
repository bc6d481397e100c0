#!/usr/bin/env python3
"""redis-py's cluster client against a server with a port for each shard: redis_py_cluster.py PORT

The server is flushed. Exits with an error at the first thing that is not as Redis Cluster does it.
"""
import sys

from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, ResponseError


def expect(found, wanted, what):
    if found != wanted:
        raise SystemExit(f"{what}: got {found!r}, wanted {wanted!r}")


def moved(client):
    """How often a port has told its clients to ask another one."""
    infos = client.info("errorstats", target_nodes=RedisCluster.ALL_NODES).values()
    return sum(info.get("errorstat_MOVED", {}).get("count", 0) for info in infos)


def main():
    port = int(sys.argv[1])
    for protocol in (2, 3):
        client = RedisCluster(host="127.0.0.1", port=port, protocol=protocol, socket_timeout=10)
        client.flushall(target_nodes=RedisCluster.ALL_NODES)
        expect(len(client.get_primaries()), 4, "nodes")
        before = moved(client)
        for number in range(1000):
            client.set(f"k{number}", number)
        expect(all(client.get(f"k{n}") == b"%d" % n for n in range(1000)), True, "get")
        pipe = client.pipeline()
        for number in range(500):
            pipe.incr(f"n{number}")
        expect(pipe.execute(), [1] * 500, "a pipeline over all nodes")
        expect(client.mset_nonatomic({"x": 1, "y": 2, "z": 3}), [True] * 3, "mset by node")
        expect(client.mget({"{t}a": 0, "{t}b": 0}), [None, None], "mget of one hash slot")
        expect(moved(client), before, "redirections")
        try:
            client.get_redis_connection(client.get_default_node()).mget("a", "b")
            raise SystemExit("keys of different hash slots were served together")
        except ResponseError as error:
            expect(str(error).startswith("Keys in request don't hash"), True, "crossslot")
        except RedisClusterException:
            pass
        sizes = client.dbsize(target_nodes=RedisCluster.ALL_NODES)
        total = sum(sizes.values()) if isinstance(sizes, dict) else sizes
        expect(total, len(set(client.scan_iter(count=100))), "keys of all nodes")
        client.close()
    print("redis-py cluster: passed")


main()
