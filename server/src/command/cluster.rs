//! CLUSTER and its relatives: what clients and tools ask about the nodes and their hash slots.

use std::fmt::Write;

use engine::HASH_SLOTS;

use super::args::Args;
use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, NOT_AN_INTEGER, SYNTAX};
use super::spec::{Command, Group, Handler, flag};
use crate::clock;
use crate::cluster::Endpoint;
use crate::cluster::nodes_file::write_ranges;
use crate::conn::Client;
use crate::input::Needs;
use crate::keyspace::{SlotStats, shard_of};
use crate::resp::Reply;

const GROUP: Group = Group::Cluster;
const ANY_TIME: u32 = flag::LOADING | flag::STALE;
const OPERATOR: u32 = flag::ADMIN | flag::STALE | flag::NO_ASYNC_LOADING;
const VARYING: &[&str] = &["nondeterministic_output"];

const DISABLED: CommandError = CommandError::new("ERR This instance has cluster support disabled");
const INVALID_SLOT: CommandError = CommandError::new("ERR Invalid or out of range slot");
const FIXED: CommandError = CommandError::new(
    "ERR with port-mode per-shard the hash slots of each shard are fixed; restart with another \
     number of shards to spread them anew",
);

const fn row(name: &'static str, arity: i32, flags: u32, run: Handler) -> Command {
    Command::new(name, arity, flags, run)
}

/// The rows of this family.
pub const COMMANDS: &[Command] =
    &[
        row("asking", 1, flag::FAST, in_cluster).acl(super::spec::acl::CONNECTION).docs(
            GROUP,
            "3.0.0",
            "O(1)",
            "Says that the next command follows an ASK redirection.",
        ),
        Command::container("cluster", CLUSTER).docs(
            GROUP,
            "3.0.0",
            "Depends on subcommand.",
            "Shows and controls the nodes of the cluster and their hash slots.",
        ),
        row("readonly", 1, ANY_TIME | flag::FAST, in_cluster)
            .acl(super::spec::acl::CONNECTION)
            .docs(GROUP, "3.0.0", "O(1)", "Allows the connection to read from replicas."),
        row("readwrite", 1, ANY_TIME | flag::FAST, in_cluster)
            .acl(super::spec::acl::CONNECTION)
            .docs(GROUP, "3.0.0", "O(1)", "Ends what READONLY has allowed."),
    ];

/// The subcommands of CLUSTER.
const CLUSTER: &[Command] = &[
    row("addslots", -3, OPERATOR, addslots).docs(
        GROUP,
        "3.0.0",
        "O(N) where N is the total number of hash slot arguments",
        "Has this node serve hash slots.",
    ),
    row("addslotsrange", -4, OPERATOR, addslotsrange).docs(
        GROUP,
        "7.0.0",
        "O(N) where N is the total number of the slots between the start slot and end slot \
         arguments.",
        "Has this node serve ranges of hash slots.",
    ),
    row("countkeysinslot", 3, flag::STALE, countkeysinslot).placed(place_slot).docs(
        GROUP,
        "3.0.0",
        "O(1)",
        "Counts the keys of a hash slot.",
    ),
    row("delslots", -3, OPERATOR, delslots).docs(
        GROUP,
        "3.0.0",
        "O(N) where N is the total number of hash slot arguments",
        "Has this node no longer serve hash slots.",
    ),
    row("delslotsrange", -4, OPERATOR, delslotsrange).docs(
        GROUP,
        "7.0.0",
        "O(N) where N is the total number of the slots between the start slot and end slot \
         arguments.",
        "Has this node no longer serve ranges of hash slots.",
    ),
    row("flushslots", 2, OPERATOR, flushslots).docs(
        GROUP,
        "3.0.0",
        "O(1)",
        "Has this node serve no hash slot any more; it must have no keys.",
    ),
    row("getkeysinslot", 4, flag::STALE, getkeysinslot).placed(place_slot).tips(VARYING).docs(
        GROUP,
        "3.0.0",
        "O(N) where N is the number of requested keys",
        "Lists keys of a hash slot.",
    ),
    row("help", 2, ANY_TIME, help).docs(GROUP, "5.0.0", "O(1)", "Lists the subcommands."),
    row("info", 2, flag::STALE, info).tips(VARYING).docs(
        GROUP,
        "3.0.0",
        "O(1)",
        "Describes the state of the cluster.",
    ),
    row("keyslot", 3, flag::STALE, keyslot).docs(
        GROUP,
        "3.0.0",
        "O(N) where N is the number of bytes in the key",
        "Answers the hash slot of a key.",
    ),
    row("links", 2, flag::STALE, links).tips(VARYING).docs(
        GROUP,
        "7.0.0",
        "O(N) where N is the total number of Cluster nodes",
        "Lists the connections of the bus to other nodes.",
    ),
    row("myid", 2, flag::STALE, myid).docs(GROUP, "3.0.0", "O(1)", "Answers the node's name."),
    row("myshardid", 2, flag::STALE, myshardid).tips(VARYING).docs(
        GROUP,
        "7.2.0",
        "O(1)",
        "Answers the name of the node's shard.",
    ),
    row("nodes", 2, flag::STALE, nodes).tips(VARYING).docs(
        GROUP,
        "3.0.0",
        "O(N) where N is the total number of Cluster nodes",
        "Describes the nodes, one a line.",
    ),
    row("saveconfig", 2, OPERATOR, saveconfig).docs(
        GROUP,
        "3.0.0",
        "O(1)",
        "Writes the nodes and their hash slots to the cluster's file.",
    ),
    row("shards", 2, ANY_TIME, shards).tips(VARYING).docs(
        GROUP,
        "7.0.0",
        "O(N) where N is the total number of cluster nodes",
        "Describes the shards with their hash slots and nodes.",
    ),
    row("slot-stats", -4, flag::STALE | flag::LOADING | flag::ALL_SHARDS, slot_stats)
        .tips(&["nondeterministic_output", "request_policy:all_shards"])
        .docs(
            GROUP,
            "8.2.0",
            "O(N) where N is the total number of slots based on arguments. O(N*log(N)) with \
             ORDERBY subcommand.",
            "Shows keys and use of the hash slots that this node serves.",
        ),
    row("slots", 2, ANY_TIME, slots).tips(VARYING).docs(
        GROUP,
        "3.0.0",
        "O(N) where N is the total number of Cluster nodes",
        "Lists the ranges of hash slots with the nodes that serve them.",
    ),
];

const HELP: &[&str] = &[
    "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys in <slot>.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return key names stored by current node in a slot.",
    "INFO",
    "    Return information about the cluster.",
    "KEYSLOT <key>",
    "    Return the hash slot for <key>.",
    "MYID",
    "    Return the node id.",
    "MYSHARDID",
    "    Return the node's shard id.",
    "NODES",
    "    Return cluster configuration seen by node. Output format:",
    "    <id> <ip:port@bus-port[,hostname]> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
    "SLOTS",
    "    Return information about slots range mappings. Each range is made of:",
    "    start, end, master and replicas IP addresses, ports and ids",
    "SLOT-STATS",
    "    Return an array of slot usage statistics for slots assigned to the current node.",
    "SHARDS",
    "    Return information about slot range mappings and the nodes associated with them.",
    "ADDSLOTS <slot> [<slot> ...]",
    "    Assign slots to current node.",
    "ADDSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Assign slots which are between <start-slot> and <end-slot> to current node.",
    "DELSLOTS <slot> [<slot> ...]",
    "    Delete slots information from current node.",
    "DELSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Delete slots information which are between <start-slot> and <end-slot> from current node.",
    "FLUSHSLOTS",
    "    Delete current node own slots information.",
    "SAVECONFIG",
    "    Force saving cluster configuration on disk.",
    "LINKS",
    "    Return information about all network links between this node and its peers.",
    "    Output format is an array where each array element is a map containing attributes of a link",
    "HELP",
    "    Print this help.",
];

fn enabled(ctx: &CommandCtx<'_>) -> CommandResult {
    if ctx.shard.config.cluster_enabled { Ok(()) } else { Err(DISABLED) }
}

/// READONLY, READWRITE, ASKING: with neither replicas nor hash slots on their way, there is nothing
/// to be allowed.
fn in_cluster(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    ctx.reply.ok();
    Ok(())
}

/// The number of the node that the client speaks to.
fn own_node(ctx: &CommandCtx<'_>) -> usize {
    if ctx.shard.process.cluster.per_shard { ctx.shard.index } else { 0 }
}

/// A number as a hash slot.
fn as_slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| usize::from(*slot) < HASH_SLOTS)
}

fn slot(text: &[u8]) -> Result<u16, CommandError> {
    encodings::integer::parse_i64(text).and_then(as_slot).ok_or(INVALID_SLOT)
}

/// The shard of the hash slot that the third argument names.
fn place_slot(args: Args<'_>, _: &Client, shards: usize) -> Needs {
    slot(args.get(2)).map_or(Needs::Nothing, |slot| Needs::One(shard_of(slot, shards)))
}

fn countkeysinslot(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let slot = as_slot(ctx.args.integer(2)?).ok_or(CommandError::new("ERR Invalid slot"))?;
    ctx.reply.count(ctx.keyspace.slot_len(0, slot));
    Ok(())
}

fn getkeysinslot(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let (slot, count) = (ctx.args.integer(2)?, ctx.args.integer(3)?);
    let (Some(slot), Ok(count)) = (as_slot(slot), usize::try_from(count)) else {
        return Err(CommandError::new("ERR Invalid slot or number of keys"));
    };
    let start = ctx.reply.defer();
    let mut found = 0;
    ctx.keyspace.for_each_key_in_slot(0, slot, count, |key| {
        ctx.reply.bulk(key);
        found += 1;
    });
    ctx.reply.finish_array(start, found);
    Ok(())
}

fn keyslot(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    ctx.reply.integer(i64::from(engine::hash_slot(ctx.args.get(2))));
    Ok(())
}

fn myid(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let node = own_node(ctx);
    ctx.reply.bulk(ctx.shard.process.cluster.node_ids[node].as_bytes());
    Ok(())
}

fn myshardid(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let node = own_node(ctx);
    ctx.reply.bulk(ctx.shard.process.cluster.shard_ids[node].as_bytes());
    Ok(())
}

fn links(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    // The nodes of one process speak without a bus.
    ctx.reply.array(0);
    Ok(())
}

fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    ctx.reply.lines(HELP);
    Ok(())
}

fn info(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let cluster = &ctx.shard.process.cluster;
    let assigned = cluster.assigned_len();
    let state = if cluster.is_up(&ctx.shard.config) { "ok" } else { "fail" };
    let size = if assigned > 0 { cluster.nodes() } else { 0 };
    let epoch = cluster.current_epoch();
    let text = format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{assigned}\
         \r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{}\r\n\
         cluster_size:{size}\r\ncluster_current_epoch:{epoch}\r\ncluster_my_epoch:{}\r\n\
         cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n\
         total_cluster_links_buffer_limit_exceeded:0\r\n",
        cluster.nodes(),
        cluster.epoch_of(own_node(ctx)),
    );
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn nodes(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let cluster = &ctx.shard.process.cluster;
    let own = own_node(ctx);
    let mut text = String::new();
    for node in 0..cluster.nodes() {
        let Endpoint { ip, port, bus_port, hostname } = Endpoint::of(node, ctx.shard, ctx.client);
        let hostname = if hostname.is_empty() { hostname } else { format!(",{hostname}") };
        let flags = if node == own { "myself,master" } else { "master" };
        let epoch = cluster.epoch_of(node);
        let id = &cluster.node_ids[node];
        let _ =
            write!(text, "{id} {ip}:{port}@{bus_port}{hostname} {flags} - 0 0 {epoch} connected");
        write_ranges(&cluster.ranges(node), &mut text);
        text.push('\n');
    }
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn host(reply: &mut Reply, host: Option<&str>) {
    match host {
        Some(host) => reply.bulk(host.as_bytes()),
        None => reply.null(),
    }
}

fn slots(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let cluster = &ctx.shard.process.cluster;
    let start = ctx.reply.defer();
    let mut len = 0;
    for node in 0..cluster.nodes() {
        let endpoint = Endpoint::of(node, ctx.shard, ctx.client);
        for (first, last) in cluster.ranges(node) {
            ctx.reply.array(3);
            ctx.reply.count(first);
            ctx.reply.count(last);
            write_node(ctx.reply, &endpoint, &ctx.shard.config, &cluster.node_ids[node]);
            len += 1;
        }
    }
    ctx.reply.finish_array(start, len);
    Ok(())
}

/// A node of CLUSTER SLOTS: the preferred form of its host, and the others beside it.
fn write_node(reply: &mut Reply, endpoint: &Endpoint, config: &crate::config::Config, id: &str) {
    reply.array(4);
    host(reply, endpoint.preferred(config));
    reply.integer(endpoint.port);
    reply.bulk(id.as_bytes());
    let preferred = config.value("cluster-preferred-endpoint-type");
    let mut others = Vec::new();
    if preferred != "ip" {
        others.push(("ip", &endpoint.ip));
    }
    if preferred != "hostname" && !endpoint.hostname.is_empty() {
        others.push(("hostname", &endpoint.hostname));
    }
    reply.map(others.len());
    for (name, value) in others {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

fn shards(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let cluster = &ctx.shard.process.cluster;
    ctx.reply.array(cluster.nodes());
    for node in 0..cluster.nodes() {
        let endpoint = Endpoint::of(node, ctx.shard, ctx.client);
        let ranges = cluster.ranges(node);
        ctx.reply.map(2);
        ctx.reply.bulk(b"slots");
        ctx.reply.array(2 * ranges.len());
        for (first, last) in ranges {
            ctx.reply.count(first);
            ctx.reply.count(last);
        }
        ctx.reply.bulk(b"nodes");
        ctx.reply.array(1);
        write_details(ctx.reply, &endpoint, &ctx.shard.config, &cluster.node_ids[node]);
    }
    Ok(())
}

/// A node of CLUSTER SHARDS.
fn write_details(reply: &mut Reply, endpoint: &Endpoint, config: &crate::config::Config, id: &str) {
    let has_name = !endpoint.hostname.is_empty();
    reply.map(7 + usize::from(has_name));
    reply.bulk(b"id");
    reply.bulk(id.as_bytes());
    reply.bulk(b"port");
    reply.integer(endpoint.port);
    reply.bulk(b"ip");
    reply.bulk(endpoint.ip.as_bytes());
    reply.bulk(b"endpoint");
    host(reply, endpoint.preferred(config));
    if has_name {
        reply.bulk(b"hostname");
        reply.bulk(endpoint.hostname.as_bytes());
    }
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"replication-offset");
    reply.integer(0);
    reply.bulk(b"health");
    reply.bulk(b"online");
}

/// Assigns hash slots, or takes them away, all or none.
fn assign(
    ctx: &mut CommandCtx<'_>,
    on: bool,
    slots: impl Iterator<Item = Result<u16, CommandError>>,
) -> CommandResult {
    let cluster = &ctx.shard.process.cluster;
    if cluster.per_shard {
        return Err(FIXED);
    }
    let mut seen = vec![false; HASH_SLOTS];
    for slot in slots {
        let slot = slot?;
        if cluster.is_assigned(slot) == on {
            let state = if on { "busy" } else { "unassigned" };
            return Err(CommandError::text(format!("ERR Slot {slot} is already {state}")));
        }
        if std::mem::replace(&mut seen[usize::from(slot)], true) {
            return Err(CommandError::text(format!("ERR Slot {slot} specified multiple times")));
        }
    }
    for slot in (0..HASH_SLOTS).filter(|slot| seen[*slot]) {
        cluster.assign(slot as u16, on);
    }
    ctx.ok_when_saved();
    Ok(())
}

fn addslots(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let args = ctx.args;
    assign(ctx, true, args.from(2).map(slot))
}

fn delslots(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let args = ctx.args;
    assign(ctx, false, args.from(2).map(slot))
}

/// The hash slots of pairs of first and last ones; a pair that is none gives one error.
fn ranges(args: Args<'_>) -> impl Iterator<Item = Result<u16, CommandError>> {
    let range = move |index: usize| {
        let (first, last) = (slot(args.get(index))?, slot(args.get(index + 1))?);
        if first > last {
            return Err(CommandError::text(format!(
                "ERR start slot number {first} is greater than end slot number {last}"
            )));
        }
        Ok(first..=last)
    };
    let pairs = (2..args.len() - 1).step_by(2).map(range);
    pairs.flat_map(|pair| {
        let (slots, error) = match pair {
            Ok(slots) => (Some(slots), None),
            Err(error) => (None, Some(Err(error))),
        };
        slots.into_iter().flatten().map(Ok).chain(error)
    })
}

/// Assigns the hash slots of ranges, or takes them away.
fn assign_ranges(ctx: &mut CommandCtx<'_>, on: bool) -> CommandResult {
    enabled(ctx)?;
    if !ctx.args.len().is_multiple_of(2) {
        return Err(super::dispatch::wrong_arity(ctx.entry));
    }
    let args = ctx.args;
    assign(ctx, on, ranges(args))
}

fn addslotsrange(ctx: &mut CommandCtx<'_>) -> CommandResult {
    assign_ranges(ctx, true)
}

fn delslotsrange(ctx: &mut CommandCtx<'_>) -> CommandResult {
    assign_ranges(ctx, false)
}

fn flushslots(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let cluster = &ctx.shard.process.cluster;
    if cluster.per_shard {
        return Err(FIXED);
    }
    (0..HASH_SLOTS).for_each(|slot| cluster.assign(slot as u16, false));
    ctx.ok_when_saved();
    Ok(())
}

fn saveconfig(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    ctx.ok_when_saved();
    Ok(())
}

/// What CLUSTER SLOT-STATS shows of a hash slot.
struct Row {
    slot: u16,
    keys: usize,
    used: SlotStats,
}

/// Figures by which hash slots are ordered.
const METRICS: [&str; 4] = ["key-count", "cpu-usec", "network-bytes-in", "network-bytes-out"];

impl Row {
    fn metric(&self, metric: usize) -> u64 {
        match metric {
            0 => self.keys as u64,
            1 => clock::to_us(self.used.cycles),
            2 => self.used.bytes_in,
            _ => self.used.bytes_out,
        }
    }
}

fn slot_stats(ctx: &mut CommandCtx<'_>) -> CommandResult {
    enabled(ctx)?;
    let args = ctx.args;
    if args.is(2, "slotsrange") && args.len() == 5 {
        let (first, last) = (slot(args.get(3))?, slot(args.get(4))?);
        if first > last {
            return Err(CommandError::text(format!(
                "ERR Start slot number {first} is greater than end slot number {last}"
            )));
        }
        let rows = rows(ctx, first..=last);
        write_rows(ctx, &rows);
        return Ok(());
    }
    if !args.is(2, "orderby") {
        return Err(super::dispatch::subcommand_syntax(ctx));
    }
    let (mut limit, mut ascending) = (HASH_SLOTS, false);
    let metric = METRICS.iter().position(|name| args.is(3, name));
    let has_stats = ctx.shard.hot.slot_stats;
    let metric = metric.filter(|metric| *metric == 0 || has_stats);
    let metric = metric.ok_or(CommandError::new("ERR Unrecognized sort metric for ORDERBY."))?;
    let mut cursor = args.cursor(4);
    while cursor.remaining() > 0 {
        if let Some(text) = cursor.accept_with_value("limit") {
            let number = encodings::integer::parse_i64(text).ok_or(NOT_AN_INTEGER)?;
            let number = usize::try_from(number).ok();
            limit = number.filter(|number| (1..=HASH_SLOTS).contains(number)).ok_or(
                CommandError::new(
                    "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).",
                ),
            )?;
        } else if cursor.accept("asc") {
            ascending = true;
        } else if !cursor.accept("desc") {
            return Err(SYNTAX);
        }
    }
    let mut rows = rows(ctx, 0..=(HASH_SLOTS - 1) as u16);
    rows.sort_by(|a, b| {
        let order = a.metric(metric).cmp(&b.metric(metric));
        let order = if ascending { order } else { order.reverse() };
        order.then(a.slot.cmp(&b.slot))
    });
    rows.truncate(limit);
    write_rows(ctx, &rows);
    Ok(())
}

/// The hash slots of a range that this node serves.
fn rows(ctx: &mut CommandCtx<'_>, range: std::ops::RangeInclusive<u16>) -> Vec<Row> {
    let (cluster, shards) = (&ctx.shard.process.cluster, ctx.keyspace.shards());
    let own = own_node(ctx);
    let slots = range.filter(|slot| cluster.node_of(*slot) == Some(own));
    slots
        .map(|slot| {
            let share = ctx.keyspace.share(shard_of(slot, shards));
            let used = share.slot_stats(slot);
            Row { slot, keys: share.partition.slot_len(0, slot), used }
        })
        .collect()
}

fn write_rows(ctx: &mut CommandCtx<'_>, rows: &[Row]) {
    let metrics = if ctx.shard.hot.slot_stats { METRICS.len() } else { 1 };
    ctx.reply.array(rows.len());
    for row in rows {
        ctx.reply.array(2);
        ctx.reply.integer(i64::from(row.slot));
        ctx.reply.map(metrics);
        for (metric, name) in METRICS[..metrics].iter().enumerate() {
            ctx.reply.bulk(name.as_bytes());
            ctx.reply.integer(row.metric(metric) as i64);
        }
    }
}
