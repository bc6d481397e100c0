//! Sparse registers: reading runs, and raising one register among them.

use super::{HEADER_LEN, Register, forget_count};
use crate::Corrupt;

const XZERO: u8 = 0x40;
const VAL: u8 = 0x80;

/// A ZERO is at most so long.
const ZERO_LEN_MAX: usize = 64;
const VAL_LEN_MAX: usize = 4;
const VAL_MAX: u8 = 32;

/// Registers of one value.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) value: u8,
    pub(super) len: usize,
    /// Bytes of the opcode.
    size: usize,
}

/// Reads the opcode at `at`. An XZERO that the end cuts has a second byte of 0, as in Redis, whose
/// strings end with one.
#[inline(always)]
fn run_at(bytes: &[u8], at: usize) -> Run {
    let byte = bytes[at];
    let value = if byte >= VAL { (byte >> 2 & 0x1f) + 1 } else { 0 };
    if byte & 0xc0 == XZERO {
        Run { value, len: long_len(bytes, at), size: 2 }
    } else {
        Run { value, len: short_len(byte), size: 1 }
    }
}

#[inline(always)]
fn long_len(bytes: &[u8], at: usize) -> usize {
    let second = bytes.get(at + 1).copied().unwrap_or(0);
    (usize::from(bytes[at] & 0x3f) << 8 | usize::from(second)) + 1
}

/// ZERO and VAL alternate at random: no branch tells them apart.
#[inline(always)]
fn short_len(byte: u8) -> usize {
    usize::from(byte & if byte >= VAL { 0x03 } else { 0x3f }) + 1
}

/// The first byte and the run of each opcode.
pub(super) fn opcodes(bytes: &[u8]) -> impl Iterator<Item = (u8, Run)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = *bytes.get(at)?;
        let run = run_at(bytes, at);
        at += run.size;
        Some((first, run))
    })
}

/// Where a walk over the opcodes begins.
#[derive(Clone, Copy)]
pub(super) struct Place {
    at: usize,
    /// The first register of the opcode.
    first: usize,
    /// Where the opcode before it lies.
    before: Option<usize>,
}

impl Place {
    pub(super) const START: Self = Self { at: HEADER_LEN, first: 0, before: None };
}

/// What became of a register.
pub(super) enum Raised {
    /// It was lower, or not.
    Sparse(bool),
    /// It cannot be raised in a sparse string.
    NeedsDense,
}

/// Opcodes that take the place of one; at most five bytes.
#[derive(Default)]
struct Sequence {
    bytes: [u8; 5],
    len: usize,
}

impl Sequence {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn push_run(&mut self, value: u8, len: usize) {
        match (value, len) {
            (_, 0) => {}
            (0, ..=ZERO_LEN_MAX) => self.push(len as u8 - 1),
            (0, _) => {
                self.push(XZERO | ((len - 1) >> 8) as u8);
                self.push((len - 1) as u8);
            }
            _ => self.push(val(value, len)),
        }
    }
}

fn val(value: u8, len: usize) -> u8 {
    VAL | (value - 1) << 2 | (len - 1) as u8
}

/// Raises a register, splitting the run that it lies in and joining it to equal neighbours. Leaves
/// `place` before the register, for others that are not below it.
pub(super) fn raise(
    string: &mut Vec<u8>,
    register: Register,
    sparse_len_max: usize,
    place: &mut Place,
) -> Result<Raised, Corrupt> {
    let (index, value) = (usize::from(register.index), register.value);
    if value > VAL_MAX {
        return Ok(Raised::NeedsDense);
    }
    let (here, run) = find(string, index, place)?;
    if run.value >= value {
        return Ok(Raised::Sparse(false));
    }
    if run.len == 1 && run.size == 1 {
        string[here.at] = val(value, 1);
    } else {
        let mut sequence = Sequence::default();
        sequence.push_run(run.value, index - here.first);
        sequence.push_run(value, 1);
        sequence.push_run(run.value, here.first + run.len - 1 - index);
        let len = string.len() + sequence.len - run.size;
        if sequence.len > run.size && len > sparse_len_max {
            return Ok(Raised::NeedsDense);
        }
        let end = string.len().min(here.at + run.size);
        string.splice(here.at..end, sequence.bytes[..sequence.len].iter().copied());
        // Where the end cut an opcode, it cuts what takes its place.
        string.truncate(len);
    }
    join(string, here.before.unwrap_or(HEADER_LEN));
    if place.at == here.at {
        // The opcode may have been joined to the one before it.
        *place = Place::START;
    }
    forget_count(string);
    Ok(Raised::Sparse(true))
}

/// The opcode of a register, looked for from `place` on, which ends up at the one before it.
fn find(string: &[u8], index: usize, place: &mut Place) -> Result<(Place, Run), Corrupt> {
    let mut here = *place;
    while here.at < string.len() {
        if let Some(eight) = string[here.at..].first_chunk() {
            let (count, len) = short_opcodes(*eight);
            if count > 0 && index >= here.first + len {
                let (end, first) = (here.at + count, here.first + len);
                let before = if count > 1 { Some(end - 2) } else { here.before };
                *place = Place { at: end - 1, first: first - short_len(string[end - 1]), before };
                here = Place { at: end, first, before: Some(end - 1) };
                continue;
            }
        }
        let run = run_at(string, here.at);
        if index < here.first + run.len {
            return Ok((here, run));
        }
        *place = here;
        here = Place { at: here.at + run.size, first: here.first + run.len, before: Some(here.at) };
    }
    Err(Corrupt)
}

/// How many opcodes of eight bytes lie before an XZERO, and their length together.
#[inline(always)]
fn short_opcodes(bytes: [u8; 8]) -> (usize, usize) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(bytes);
    let is_val = word >> 7 & ONES;
    let is_long = word >> 6 & ONES & !is_val;
    let lens = (word & (0x3f * ONES - 0x3c * is_val)) + ONES;
    // All bits below the first XZERO's.
    let lens = lens & !is_long & is_long.wrapping_sub(1);
    let pairs = (lens & 0x00ff_00ff_00ff_00ff) + (lens >> 8 & 0x00ff_00ff_00ff_00ff);
    let len = pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48;
    (is_long.trailing_zeros() as usize / 8, len as usize)
}

/// How many opcodes are looked at for equal neighbours; a change splits one into three at most.
const JOIN_STEPS: usize = 5;

fn join(string: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOIN_STEPS {
        if at >= string.len() {
            return;
        }
        let run = run_at(string, at);
        if run.value > 0 && string.get(at + 1).is_some_and(|byte| *byte >= VAL) {
            let next = run_at(string, at + 1);
            if next.value == run.value && run.len + next.len <= VAL_LEN_MAX {
                string[at + 1] = val(run.value, run.len + next.len);
                string.remove(at);
                // The joined run may have an equal neighbour in turn.
                continue;
            }
        }
        at += run.size;
    }
}
