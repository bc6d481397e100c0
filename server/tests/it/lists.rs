//! Clients that wait for lists, whose keys may be of any shard.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::osmia::{Osmia, backends};
use super::words_of;

fn client(osmia: &Osmia) -> BufReader<TcpStream> {
    BufReader::new(osmia.connect())
}

/// Sends a request that blocks, and waits until so many clients are blocked.
fn block(
    waiting: &mut BufReader<TcpStream>,
    other: &mut BufReader<TcpStream>,
    request: &str,
    blocked: usize,
) {
    waiting.get_mut().write_all(format!("{request}\r\n").as_bytes()).expect("a request");
    for _ in 0..500 {
        other.get_mut().write_all(b"CLIENT LIST\r\n").expect("a request");
        let list = super::bulk_of(other);
        if list.matches("flags=b").count() == blocked {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{request}: the client does not wait");
}

/// The reply to what was sent before; an empty line asks for nothing.
fn answer(client: &mut BufReader<TcpStream>) -> Vec<String> {
    words_of(client, "")
}

#[test]
fn who_waits_for_lists_of_any_shard_is_served_in_order() {
    for backend in backends() {
        for shards in ["1", "4"] {
            let osmia = Osmia::start(&[&backend[..], &["--shards", shards]].concat());
            let (mut a, mut b, mut other) = (client(&osmia), client(&osmia), client(&osmia));
            block(&mut a, &mut other, "BLPOP k1 k2 k3 k4 0", 1);
            assert_eq!(words_of(&mut other, "RPUSH k3 x"), ["1"]);
            assert_eq!(answer(&mut a), ["k3", "x"]);
            assert_eq!(words_of(&mut other, "EXISTS k3"), ["0"]);

            block(&mut a, &mut other, "BLPOP q 0", 1);
            block(&mut b, &mut other, "BRPOP k9 q 0", 2);
            assert_eq!(words_of(&mut other, "RPUSH q 1 2 3"), ["3"]);
            assert_eq!(answer(&mut a), ["q", "1"]);
            assert_eq!(answer(&mut b), ["q", "3"]);
            assert_eq!(words_of(&mut other, "LRANGE q 0 -1"), ["2"]);

            // Sources and targets of all pairs of shards.
            for number in 0..8 {
                let request = format!("BLMOVE from{number} to{} LEFT RIGHT 0", number * 7);
                block(&mut a, &mut other, &request, 1);
                assert_eq!(words_of(&mut other, &format!("LPUSH from{number} y")), ["1"]);
                assert_eq!(answer(&mut a), ["y"]);
                let range = format!("LRANGE to{} 0 -1", number * 7);
                assert_eq!(words_of(&mut other, &range), ["y"]);
            }

            // Of two keys that a transaction makes, the one that was named first.
            for (request, make, served) in [
                ("BLPOP one{t} two{t} 0", "RPUSH", ["one{t}", "x"].as_slice()),
                ("BLMPOP 0 2 one{t} two{t} LEFT", "RPUSH", &["one{t}", "x"]),
                ("BZPOPMIN one{t} two{t} 0", "ZADD", &["one{t}", "x", "1"]),
                ("BZMPOP 0 2 one{t} two{t} MIN", "ZADD", &["one{t}", "x", "1"]),
            ] {
                block(&mut a, &mut other, request, 1);
                let score = if make == "ZADD" { "1 " } else { "" };
                words_of(&mut other, "MULTI");
                words_of(&mut other, &format!("{make} two{{t}} {score}y"));
                words_of(&mut other, &format!("{make} one{{t}} {score}x"));
                words_of(&mut other, "EXEC");
                assert_eq!(answer(&mut a), served, "{request}");
                assert_eq!(words_of(&mut other, "EXISTS one{t} two{t}"), ["1"]);
                words_of(&mut other, "DEL two{t}");
            }

            // A list that a transaction makes and takes away again is not there.
            block(&mut a, &mut other, "BLPOP gone 0.3", 1);
            for request in ["MULTI", "RPUSH gone x", "DEL gone", "EXEC"] {
                words_of(&mut other, request);
            }
            let mut null = [0; 5];
            std::io::Read::read_exact(&mut a, &mut null).expect("a reply");
            assert_eq!(&null, b"*-1\r\n");
        }
    }
}
