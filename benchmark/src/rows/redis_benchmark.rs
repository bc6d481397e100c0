//! The program `redis-benchmark` as the load generator of `rows`.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use super::Sample;
use crate::load::Stop;
use crate::template::KEY_MARK;
use crate::{Error, Result};

/// Requests a second that a visit of a given time is planned for, since the program only knows
/// numbers of requests.
const PLANNED_RATE: f64 = 200_000.0;

/// A visit.
pub(super) struct Job<'a> {
    pub(super) address: SocketAddr,
    pub(super) command: &'a [String],
    pub(super) keys: Option<u64>,
    pub(super) pipeline: usize,
    pub(super) clients: usize,
    pub(super) stop: Stop,
}

/// Runs it; the figures and the number of requests, or the text of an error reply.
pub(super) fn run(job: &Job<'_>) -> Result<std::result::Result<(Sample, f64), String>> {
    let requests = match job.stop {
        Stop::Requests(count) => count.max(1),
        Stop::After(time) => planned(time),
    };
    let mut command = Command::new("redis-benchmark");
    command.arg("-h").arg(job.address.ip().to_string());
    command.arg("-p").arg(job.address.port().to_string());
    let numbers = [("-c", job.clients as u64), ("-P", job.pipeline as u64), ("-n", requests)];
    for (flag, number) in numbers {
        command.arg(flag).arg(number.to_string());
    }
    if let Some(keys) = job.keys {
        command.arg("-r").arg(keys.to_string());
    }
    command.arg("--csv");
    command.args(job.command.iter().map(|word| word.replace(KEY_MARK, "__rand_int__")));
    let output = command.output().map_err(Error::io("run redis-benchmark"))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Some(error) = text.lines().chain(errors.lines()).find(|line| line.contains("Error")) {
        return Ok(Err(error.to_owned()));
    }
    let sample = parse(&text)
        .ok_or_else(|| Error::Input(format!("redis-benchmark printed: {text}{errors}")))?;
    Ok(Ok((sample, requests as f64)))
}

fn planned(time: Duration) -> u64 {
    ((time.as_secs_f64() * PLANNED_RATE) as u64).max(1)
}

/// Reads its table: a head, then a line with
/// `"test","rps","avg_ms","min_ms","p50_ms","p95_ms","p99_ms","max_ms"`. The test's name may
/// have commas, so fields are counted from the end.
fn parse(text: &str) -> Option<Sample> {
    let line = text.lines().rfind(|line| line.starts_with('"'))?;
    let fields: Vec<&str> = line.rsplit(',').map(|field| field.trim_matches('"')).collect();
    let number = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some(Sample {
        requests_per_s: number(6)?,
        server_cpu_ns: 0.0,
        client_cpu_ns: 0.0,
        p50_us: number(3)? * 1000.0,
        p99_us: number(1)? * 1000.0,
        p99_9_us: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_table_is_read() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                    \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"set a,b\",\"99900.10\",\"0.276\",\"0.080\",\"0.271\",\"0.415\",\"0.503\",\
                    \"1.007\"\n";
        let sample = parse(text).expect("a sample");
        assert_eq!(sample.requests_per_s, 99900.10);
        assert_eq!([sample.p50_us, sample.p99_us], [271.0, 503.0]);
        assert!(parse("nothing").is_none());
    }
}
