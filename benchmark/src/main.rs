//! The command line of the benchmarks.

mod options;

use std::process::ExitCode;

fn main() -> ExitCode {
    match options::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            benchmark::table::progress(&format!("benchmark: {error}"));
            ExitCode::FAILURE
        }
    }
}
