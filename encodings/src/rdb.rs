//! Values as RDB files hold them, and the payloads of DUMP.
//!
//! ```text
//! payload    type (0 string) | value | version, 2 bytes LE | CRC-64 of all before, 8 bytes LE
//! value      length | bytes          raw
//!            0xc0 | i8               an integer whose text is the value
//!            0xc1 | i16 LE
//!            0xc2 | i32 LE
//!            0xc3 | length compressed | length | LZF
//! length     00LLLLLL                            LLLLLL: 6 bits
//!            01LLLLLL LLLLLLLL                   14 bits BE
//!            0x80 | u32 BE
//!            0x81 | u64 BE
//! ```
//!
//! Payloads carry the oldest version that holds their value, so that every server of the family
//! restores them. Reading checks everything: payloads come from clients.

mod stream;
mod value;

pub use stream::{Consumer, Group, Pending, Stream, StreamNode, read_stream, write_stream};
pub use value::{Field, Refused, Value, read_value};

use crc::{CRC_64_REDIS, Crc, Table};

use crate::integer::{TEXT_LEN_MAX, format_i64, parse_i64};
use crate::{Corrupt, lzf};

/// The version that payloads carry: that of Redis 7.2, which all that came after take.
pub const DUMP_VERSION: u16 = 11;
/// The version of payloads whose fields have times: that of Redis 7.4.
pub const FIELD_TIMES_VERSION: u16 = 12;

/// Versions that are read, besides Valkey's own: those of Redis up to 8.2.
const VERSION_MAX: u16 = 12;
/// The version of Valkey 9; all types but hashes with times are the same.
const VERSION_VALKEY: u16 = 80;

/// A string.
pub const TYPE_STRING: u8 = 0;
/// Number of elements, then these as strings.
pub const TYPE_LIST: u8 = 1;
/// Number of nodes, then for each: 1 and an element as a string, or 2 and a string that is a listpack.
pub const TYPE_LIST_QUICKLIST: u8 = 18;
/// A string that is a ziplist of elements.
pub const TYPE_LIST_ZIPLIST: u8 = 10;
/// Number of nodes, then strings that are ziplists.
pub const TYPE_LIST_QUICKLIST_ZIPLISTS: u8 = 14;
/// Number of members, then these as strings.
pub const TYPE_SET: u8 = 2;
/// A string that is an intset in Redis's form.
pub const TYPE_SET_INTSET: u8 = 11;
/// A string that is a listpack of members.
pub const TYPE_SET_LISTPACK: u8 = 20;
/// Number of fields, then fields and values as strings.
pub const TYPE_HASH: u8 = 4;
/// A string that is a zipmap.
pub const TYPE_HASH_ZIPMAP: u8 = 9;
/// A string that is a ziplist of fields and values.
pub const TYPE_HASH_ZIPLIST: u8 = 13;
/// A string that is a listpack of fields and values.
pub const TYPE_HASH_LISTPACK: u8 = 16;
/// Redis 7.4 before its release: number of fields, then time u64 LE (0 without), field and value of
/// each. Valkey 9: number of fields, then field, value and time i64 LE (-1 without) of each.
pub const TYPE_HASH_TIMES_EARLY: u8 = 22;
/// Redis 7.4 before its release: a string that is a listpack of fields, values and times.
pub const TYPE_HASH_LISTPACK_TIMES_EARLY: u8 = 23;
/// Earliest time u64 LE, number of fields, then time, field and value of each; a time is a length: 0
/// without, else 1 more than its distance from the earliest.
pub const TYPE_HASH_TIMES: u8 = 24;
/// Earliest time u64 LE, then a string that is a listpack of fields, values and times (0 without) in
/// the order of the times, those without at the end.
pub const TYPE_HASH_LISTPACK_TIMES: u8 = 25;
/// A stream without what came later; see `stream.rs`.
pub const TYPE_STREAM: u8 = 15;
/// A stream that knows what was deleted, as Redis 7.0 wrote it.
pub const TYPE_STREAM_2: u8 = 19;
/// A stream that knows when its consumers were active, from Redis 7.2 on.
pub const TYPE_STREAM_3: u8 = 21;

/// Number of members, then member and score of each; a score is a byte of length and a text, or 253
/// not a number, 254 infinity, 255 minus infinity.
pub const TYPE_SORTED_SET_TEXT: u8 = 3;
/// Number of members, then member and score of each; a score is an f64 LE.
pub const TYPE_SORTED_SET: u8 = 5;
/// A string that is a ziplist of members and scores.
pub const TYPE_SORTED_SET_ZIPLIST: u8 = 12;
/// A string that is a listpack of members and scores in their order.
pub const TYPE_SORTED_SET_LISTPACK: u8 = 17;

const LEN_14_BITS: u8 = 0b01 << 6;
const LEN_32_BITS: u8 = 0x80;
const LEN_64_BITS: u8 = 0x81;
const INT_8: u8 = 0xc0;
const INT_16: u8 = 0xc1;
const INT_32: u8 = 0xc2;
const LZF: u8 = 0xc3;

/// Longer texts are not looked at for being integers of 32 bits.
const INT_TEXT_LEN_MAX: usize = "-2147483648".len();

/// Shorter strings are not compressed, and a compressed one must be shorter by the second.
const COMPRESS_LEN_MIN: usize = 21;
const COMPRESS_GAIN_MIN: usize = 4;

static CRC_64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The payload of DUMP for a string.
pub fn dump_string(bytes: &[u8], compress: bool) -> Vec<u8> {
    let mut payload = Vec::with_capacity(bytes.len() + 16);
    payload.push(TYPE_STRING);
    write_string(&mut payload, bytes, compress);
    sign(payload, DUMP_VERSION)
}

/// Ends a payload, type and value so far, with the version that it needs and its checksum.
pub fn sign(mut payload: Vec<u8>, version: u16) -> Vec<u8> {
    payload.extend(version.to_le_bytes());
    let checksum = CRC_64.checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

/// Appends a string in its shortest form: as an integer, compressed (if that is wanted), or raw.
pub fn write_string(output: &mut Vec<u8>, bytes: &[u8], compress: bool) {
    if let Some(value) = small_integer(bytes) {
        return write_integer(output, value);
    }
    if compress && bytes.len() >= COMPRESS_LEN_MIN {
        let compressed = lzf::compress(bytes, bytes.len() - COMPRESS_GAIN_MIN);
        if let Some(compressed) = compressed {
            output.push(LZF);
            write_len(output, compressed.len() as u64);
            write_len(output, bytes.len() as u64);
            return output.extend(compressed);
        }
    }
    write_len(output, bytes.len() as u64);
    output.extend_from_slice(bytes);
}

fn small_integer(bytes: &[u8]) -> Option<i32> {
    if bytes.len() > INT_TEXT_LEN_MAX {
        return None;
    }
    i32::try_from(parse_i64(bytes)?).ok()
}

fn write_integer(output: &mut Vec<u8>, value: i32) {
    if let Ok(value) = i8::try_from(value) {
        output.push(INT_8);
        output.extend(value.to_le_bytes());
    } else if let Ok(value) = i16::try_from(value) {
        output.push(INT_16);
        output.extend(value.to_le_bytes());
    } else {
        output.push(INT_32);
        output.extend(value.to_le_bytes());
    }
}

/// Appends a length in its shortest form.
pub fn write_len(output: &mut Vec<u8>, len: u64) {
    if len < 1 << 6 {
        output.push(len as u8);
    } else if len < 1 << 14 {
        let [high, low] = (len as u16).to_be_bytes();
        output.extend([LEN_14_BITS | high, low]);
    } else if let Ok(len) = u32::try_from(len) {
        output.push(LEN_32_BITS);
        output.extend(len.to_be_bytes());
    } else {
        output.push(LEN_64_BITS);
        output.extend(len.to_be_bytes());
    }
}

/// Whose numbers of types a payload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// All up to Redis 7.2, Valkey 8, and Redis later.
    Redis,
    /// Valkey 9 and later.
    Valkey,
}

/// What the form of a value of a type is called, for messages.
pub fn type_name(value_type: u8) -> &'static str {
    match value_type {
        TYPE_LIST_ZIPLIST => "List ziplist",
        TYPE_LIST_QUICKLIST | TYPE_LIST_QUICKLIST_ZIPLISTS => "Quicklist",
        TYPE_SET_INTSET => "Intset",
        TYPE_SET_LISTPACK => "Set listpack",
        TYPE_HASH_ZIPMAP => "Zipmap",
        TYPE_HASH_ZIPLIST => "Hash ziplist",
        TYPE_HASH_LISTPACK | TYPE_HASH_LISTPACK_TIMES | TYPE_HASH_LISTPACK_TIMES_EARLY => {
            "Hash listpack"
        }
        TYPE_SORTED_SET_ZIPLIST => "Zset ziplist",
        TYPE_SORTED_SET_LISTPACK => "Zset listpack",
        TYPE_STREAM | TYPE_STREAM_2 | TYPE_STREAM_3 => "Stream listpack",
        _ => "Value",
    }
}

/// Checks version and, unless told otherwise, checksum of a payload of DUMP, and gives type and value.
///
/// # Errors
/// The version is unknown or the checksum wrong.
pub fn open_payload(payload: &[u8], checked: bool) -> Result<(&[u8], Dialect), Corrupt> {
    let (signed, checksum) = payload.split_last_chunk::<8>().ok_or(Corrupt)?;
    let (body, version) = signed.split_last_chunk::<2>().ok_or(Corrupt)?;
    let version = u16::from_le_bytes(*version);
    if version > VERSION_MAX && version != VERSION_VALKEY {
        return Err(Corrupt);
    }
    if checked && CRC_64.checksum(signed) != u64::from_le_bytes(*checksum) {
        return Err(Corrupt);
    }
    let is_valkey = version == VERSION_VALKEY;
    Ok((body, if is_valkey { Dialect::Valkey } else { Dialect::Redis }))
}

/// The string in a payload of DUMP. Version, checksum and every length are checked, and nothing
/// may be left over.
pub fn read_string_payload(payload: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let (body, dialect) = open_payload(payload, true)?;
    match read_value(body, dialect).map_err(|_| Corrupt)? {
        Value::String(string) => Ok(string),
        _ => Err(Corrupt),
    }
}

/// Takes a string off the front of `input`. No more memory is reserved than `input` can stand
/// for.
pub fn read_string(input: &mut &[u8]) -> Result<Vec<u8>, Corrupt> {
    let value = match *input.first().ok_or(Corrupt)? {
        INT_8 => i64::from(i8::from_le_bytes(read_marked(input)?)),
        INT_16 => i64::from(i16::from_le_bytes(read_marked(input)?)),
        INT_32 => i64::from(i32::from_le_bytes(read_marked(input)?)),
        LZF => return read_compressed(input),
        _ => {
            let len = read_len(input)?;
            return Ok(take(input, len)?.to_vec());
        }
    };
    Ok(format_i64(value, &mut [0; TEXT_LEN_MAX]).to_vec())
}

fn read_compressed(input: &mut &[u8]) -> Result<Vec<u8>, Corrupt> {
    take(input, 1)?;
    let compressed_len = read_len(input)?;
    let len = usize::try_from(read_len(input)?).map_err(|_| Corrupt)?;
    lzf::decompress(take(input, compressed_len)?, len)
}

/// Takes a length off the front of `input`.
pub fn read_len(input: &mut &[u8]) -> Result<u64, Corrupt> {
    let lead = *input.first().ok_or(Corrupt)?;
    match lead {
        LEN_32_BITS => Ok(u64::from(u32::from_be_bytes(read_marked(input)?))),
        LEN_64_BITS => Ok(u64::from_be_bytes(read_marked(input)?)),
        _ if lead < LEN_14_BITS => {
            take(input, 1)?;
            Ok(u64::from(lead))
        }
        _ if lead < LEN_32_BITS => {
            let [low] = read_marked(input)?;
            Ok(u64::from(u16::from_be_bytes([lead & !LEN_14_BITS, low])))
        }
        _ => Err(Corrupt),
    }
}

/// Takes the lead byte and the `N` bytes behind it; returns those.
fn read_marked<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], Corrupt> {
    let (bytes, rest) = input.get(1..).ok_or(Corrupt)?.split_first_chunk::<N>().ok_or(Corrupt)?;
    *input = rest;
    Ok(*bytes)
}

fn take<'a>(input: &mut &'a [u8], len: u64) -> Result<&'a [u8], Corrupt> {
    let len = usize::try_from(len).map_err(|_| Corrupt)?;
    input.split_off(..len).ok_or(Corrupt)
}

#[cfg(test)]
mod tests;
