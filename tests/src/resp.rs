//! The request parser under foreign bytes: whole or in pieces, it reads the same.

use server::resp::{ArgRange, Limits, Progress, ProtocolError, Step, inline, parse};

/// What the parser made of an input.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    requests: Vec<Vec<Vec<u8>>>,
    error: Option<ProtocolError>,
}

/// Parses `input`, showing it to the parser up to each of `cuts` first, as if it arrived so.
fn parse_in_pieces(input: &[u8], cuts: &[usize], limits: &Limits) -> Outcome {
    let mut outcome = Outcome { requests: Vec::new(), error: None };
    let (mut at, mut progress, mut args) = (0, Progress::default(), Vec::<ArgRange>::new());
    for end in cuts.iter().copied().chain([input.len()]) {
        let visible = &input[..end];
        loop {
            match parse::next(visible, &mut at, &mut progress, &mut args, limits) {
                Ok(Step::NeedMore) => break,
                Ok(Step::Empty) => {}
                Ok(Step::Inline(line)) => match inline::split(&visible[line.start..line.end]) {
                    Ok(words) => outcome.requests.push(words),
                    Err(error) => {
                        outcome.error = Some(error);
                        return outcome;
                    }
                },
                Ok(Step::Request) => {
                    let request = args.drain(..);
                    outcome
                        .requests
                        .push(request.map(|arg| visible[arg.start..arg.end].to_vec()).collect());
                }
                Err(error) => {
                    outcome.error = Some(error);
                    return outcome;
                }
            }
            assert!(at <= visible.len(), "the parser stays inside its input");
        }
    }
    outcome
}

/// The first two bytes choose limits and the cut; the rest is what a client sends.
pub fn check_requests(data: &[u8]) {
    let [choice, cut, input @ ..] = data else { return };
    let limits = Limits {
        bulk_max: if choice & 1 == 0 { 512 << 20 } else { 64 },
        authenticated: choice & 2 == 0,
    };
    let whole = parse_in_pieces(input, &[], &limits);
    let cut = usize::from(*cut) % (input.len() + 1);
    assert_eq!(whole, parse_in_pieces(input, &[cut], &limits), "cut at {cut}");
    let every: Vec<usize> = (0..input.len()).collect();
    assert_eq!(whole, parse_in_pieces(input, &every, &limits), "byte by byte");
}
