// ioredis against a running server: ioredis.js single|cluster PORT
//
// `single` is its plain client against one port, `cluster` its cluster client against a server with
// a port for each of four shards. The server is flushed. Exits with an error at the first thing that
// is not as Redis does it.
"use strict";

const assert = require("node:assert");
const Redis = require("ioredis");

/** How often the ports have told their clients to ask another one. */
async function moved(nodes) {
  const infos = await Promise.all(nodes.map((node) => node.info("errorstats")));
  const counts = infos.map((info) => /errorstat_MOVED:count=(\d+)/.exec(info));
  return counts.reduce((sum, count) => sum + (count ? Number(count[1]) : 0), 0);
}

/** What the plain client and the cluster client do alike; `tag` keeps keys of one request together. */
async function exercise(client, tag) {
  const numbers = Array.from({ length: 1000 }, (_, number) => number);
  await Promise.all(numbers.map((number) => client.set(`k${number}`, number)));
  const found = await Promise.all(numbers.map((number) => client.get(`k${number}`)));
  assert.deepStrictEqual(found, numbers.map(String));

  const pipeline = client.pipeline();
  for (let number = 0; number < 500; number += 1) pipeline.incr(`${tag}n${number}`);
  assert.deepStrictEqual(await pipeline.exec(), Array(500).fill([null, 1]));

  const results = await client.multi().set(`${tag}a`, "1").incr(`${tag}a`).mget(`${tag}a`, `${tag}b`).exec();
  assert.deepStrictEqual(results, [[null, "OK"], [null, 2], [null, ["2", null]]]);

  await client.hset("hash", { field: "value", number: 7 });
  assert.deepStrictEqual(await client.hgetall("hash"), { field: "value", number: "7" });
  await assert.rejects(client.incr("hash"), /^ReplyError: WRONGTYPE/);
}

async function single(port) {
  const client = new Redis({ host: "127.0.0.1", port });
  await client.flushall();
  await exercise(client, "");
  const subscriber = new Redis({ host: "127.0.0.1", port });
  const heard = new Promise((resolve) => subscriber.on("message", (...message) => resolve(message)));
  await subscriber.subscribe("channel");
  assert.strictEqual(await client.publish("channel", "text"), 1);
  assert.deepStrictEqual(await heard, ["channel", "text"]);
  subscriber.disconnect();
  client.disconnect();
}

async function cluster(port) {
  const client = new Redis.Cluster([{ host: "127.0.0.1", port }]);
  await new Promise((resolve) => client.once("ready", resolve));
  const nodes = client.nodes("master");
  assert.strictEqual(nodes.length, 4);
  await Promise.all(nodes.map((node) => node.flushall()));
  const before = await moved(nodes);
  await exercise(client, "{t}");
  assert.strictEqual(await moved(nodes), before);
  await assert.rejects(client.mget("a", "b"), /CROSSSLOT/);
  client.disconnect();
}

const [mode, port] = process.argv.slice(2);
const run = { single, cluster }[mode];
run(Number(port)).then(
  () => console.log(`ioredis ${mode}: passed`),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
