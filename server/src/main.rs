//! The program `osmia`: reads the command line and runs what it asks for.

use std::process::ExitCode;

use server::cli::{self, Invocation};
use server::config::Config;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[allow(clippy::print_stdout, reason = "texts that the user asked for")]
fn main() -> ExitCode {
    match cli::parse(std::env::args_os().collect()) {
        Invocation::Print { text, success } if success => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Invocation::Print { text, .. } => {
            eprint!("{text}");
            ExitCode::FAILURE
        }
        Invocation::Server(args) => match Config::load(&args) {
            Ok(config) => match server::start::serve(config) {
                Ok(()) => ExitCode::SUCCESS,
                Err(server::start::Failed) => ExitCode::FAILURE,
            },
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        },
    }
}
