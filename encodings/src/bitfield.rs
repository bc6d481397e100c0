//! Integer fields of 1 to 64 bits at any bit offset of a byte string.
//!
//! ```text
//! offset   0 1 2 3 4 5 6 7 | 8 9 ...        bit 0 is the highest bit of byte 0, and a field's
//! byte     0               | 1              first bit is its highest: big-endian throughout
//! ```
//!
//! A string is an endless row of bits of which those past its end are zero: reading beyond it is
//! allowed, writing beyond it is not (the caller grows the string first).

/// Reads the field at a bit offset; bits past the end are zero.
#[inline]
pub fn get(bytes: &[u8], offset: u64, field: FieldType) -> i64 {
    let (window, _) = Window::load(bytes, offset);
    field.value_of((window >> field.shift(offset)) as u64)
}

/// Stores the low bits of `value` in the field at a bit offset.
///
/// # Panics
/// If the field doesn't lie in `bytes`.
#[inline]
pub fn set(bytes: &mut [u8], offset: u64, field: FieldType, value: i64) {
    let len_needed = (offset + u64::from(field.bits())).div_ceil(8);
    assert!(len_needed <= bytes.len() as u64, "the field lies in the string");
    let (window, first) = Window::load(bytes, offset);
    let shift = field.shift(offset);
    let mask = u128::from(u64::MAX >> (64 - field.bits())) << shift;
    let window = (window & !mask) | ((u128::from(value as u64) << shift) & mask);
    let len = Window::LEN.min(bytes.len() - first);
    bytes[first..first + len].copy_from_slice(&window.to_be_bytes()[..len]);
}

/// Width and signedness of a field, as `i16` or `u8` in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldType {
    bits: u8,
    is_signed: bool,
}

/// What becomes of a value that its field can't hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Keep the low bits.
    #[default]
    Wrap,
    /// Take the nearest value that fits.
    Saturate,
    /// Leave the field alone.
    Fail,
}

impl FieldType {
    /// A field of 1 to 64 bits if it is signed, 1 to 63 if not (so that its values are
    /// replies); `None` for any other width.
    pub fn new(is_signed: bool, bits: u32) -> Option<Self> {
        let bits_max = if is_signed { 64 } else { 63 };
        (1..=bits_max).contains(&bits).then_some(Self { bits: bits as u8, is_signed })
    }

    /// Width in bits.
    #[inline]
    pub fn bits(self) -> u32 {
        u32::from(self.bits)
    }

    /// The smallest value of the field.
    #[inline]
    pub fn min(self) -> i64 {
        if self.is_signed { i64::MIN >> (64 - self.bits()) } else { 0 }
    }

    /// The largest value of the field.
    #[inline]
    pub fn max(self) -> i64 {
        if self.is_signed { !self.min() } else { i64::MAX >> (63 - self.bits()) }
    }

    /// The value that SET stores: an unsigned field takes a negative argument for the large
    /// number that has the same 64 bits. `None` if the policy is to fail.
    ///
    /// As in Redis, a negative argument that lies further below the field's largest value than
    /// 64 bits can say saturates at that value.
    #[inline]
    pub fn fit(self, value: i64, overflow: Overflow) -> Option<i64> {
        if !self.is_signed {
            return self.narrow(i128::from(value as u64), overflow);
        }
        let is_out_of_reach = self.bits < 64 && self.max().checked_sub(value).is_none();
        if is_out_of_reach && overflow == Overflow::Saturate {
            return Some(self.max());
        }
        self.narrow(i128::from(value), overflow)
    }

    /// The value that INCRBY stores, given the field's value before. `None` if the policy is to
    /// fail.
    #[inline]
    pub fn add(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        self.narrow(i128::from(value) + i128::from(increment), overflow)
    }

    #[inline]
    fn narrow(self, wide: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = (self.min(), self.max());
        if i128::from(min) <= wide && wide <= i128::from(max) {
            return Some(wide as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.value_of(wide as u64)),
            Overflow::Saturate => Some(if wide < 0 { min } else { max }),
            Overflow::Fail => None,
        }
    }

    /// The value of the field whose bits are the lowest of `word`; the others don't matter.
    #[inline]
    fn value_of(self, word: u64) -> i64 {
        let unused = 64 - self.bits();
        let high = word << unused;
        if self.is_signed { (high as i64) >> unused } else { (high >> unused) as i64 }
    }

    /// Bits of the window that follow the field.
    #[inline]
    fn shift(self, offset: u64) -> u32 {
        128 - (offset % 8) as u32 - self.bits()
    }
}

/// The bytes that a field at some offset can touch, at the high end of a 128-bit word.
struct Window;

impl Window {
    /// A field of 64 bits touches nine bytes at most.
    const LEN: usize = 9;

    /// The window and the index of its first byte (which may lie past the end).
    #[inline]
    fn load(bytes: &[u8], offset: u64) -> (u128, usize) {
        let first = usize::try_from(offset / 8).unwrap_or(usize::MAX);
        let mut window = [0; 16];
        let rest = bytes.get(first..).unwrap_or_default();
        match rest.first_chunk::<{ Self::LEN }>() {
            Some(chunk) => window[..Self::LEN].copy_from_slice(chunk),
            None => window[..rest.len()].copy_from_slice(rest),
        }
        (u128::from_be_bytes(window), first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> FieldType {
        FieldType::new(&text[..1] == "i", text[1..].parse().unwrap()).unwrap()
    }

    #[test]
    fn types_and_their_values() {
        assert_eq!(field("i64").min(), i64::MIN);
        assert_eq!(field("i64").max(), i64::MAX);
        assert_eq!((field("u63").min(), field("u63").max()), (0, i64::MAX));
        assert_eq!((field("i1").min(), field("i1").max()), (-1, 0));
        assert_eq!((field("u1").min(), field("u1").max()), (0, 1));
        for (is_signed, bits) in [(true, 0), (true, 65), (false, 0), (false, 64), (true, 257)] {
            assert_eq!(FieldType::new(is_signed, bits), None);
        }
    }

    #[test]
    fn overflows_follow_their_policy() {
        use Overflow::{Fail, Saturate, Wrap};
        let check = |text: &str, value, increment, expected: [Option<i64>; 3]| {
            let found = [Wrap, Saturate, Fail].map(|how| field(text).add(value, increment, how));
            assert_eq!(found, expected, "{text} {value} {increment}");
        };
        check("u8", 250, 5, [Some(255); 3]);
        check("u8", 250, 6, [Some(0), Some(255), None]);
        check("u8", 5, -6, [Some(255), Some(0), None]);
        check("i8", 127, 1, [Some(-128), Some(127), None]);
        check("i8", -128, -1, [Some(127), Some(-128), None]);
        check("i8", -128, 300, [Some(-84), Some(127), None]);
        check("i64", i64::MAX, 1, [Some(i64::MIN), Some(i64::MAX), None]);
        check("i64", i64::MIN, i64::MIN, [Some(0), Some(i64::MIN), None]);
        check("u63", i64::MAX, i64::MAX, [Some(i64::MAX - 1), Some(i64::MAX), None]);
        check("u63", 0, i64::MIN, [Some(0), Some(0), None]);
        check("i1", 0, 1, [Some(-1), Some(0), None]);
        let fits = [Wrap, Saturate, Fail].map(|how| field("u8").fit(-1, how));
        assert_eq!(fits, [Some(255), Some(255), None]);
        let fits = [Wrap, Saturate, Fail].map(|how| field("i8").fit(-129, how));
        assert_eq!(fits, [Some(127), Some(-128), None]);
        let fits = [i64::MIN, i64::MIN + 127, i64::MIN + 128].map(|v| field("i8").fit(v, Saturate));
        assert_eq!(fits, [Some(127), Some(127), Some(-128)]);
        assert_eq!(field("i64").fit(i64::MIN, Fail), Some(i64::MIN));
        assert_eq!(field("i64").fit(i64::MIN, Saturate), Some(i64::MIN));
    }

    /// The same by single bits.
    fn read_slowly(bytes: &[u8], offset: u64, bits: u32) -> u64 {
        (offset..offset + u64::from(bits)).fold(0, |word, at| {
            let byte = bytes.get((at / 8) as usize).copied().unwrap_or(0);
            word << 1 | u64::from(byte >> (7 - at % 8) & 1)
        })
    }

    #[test]
    fn every_width_at_every_offset() {
        let pattern: Vec<u8> = (0..24u32).map(|i| (i * 167 + 89) as u8).collect();
        for bits in (1..=64).step_by(if cfg!(miri) { 9 } else { 1 }) {
            for offset in (0..200).step_by(if cfg!(miri) { 37 } else { 1 }) {
                let signed = FieldType::new(true, bits).unwrap();
                let word = read_slowly(&pattern, offset, bits);
                assert_eq!(get(&pattern, offset, signed), signed.value_of(word));
                if let Some(unsigned) = FieldType::new(false, bits) {
                    assert_eq!(get(&pattern, offset, unsigned), word as i64);
                }
                if offset + u64::from(bits) <= pattern.len() as u64 * 8 {
                    check_write(&pattern, signed, offset);
                }
            }
        }
    }

    fn check_write(pattern: &[u8], field: FieldType, offset: u64) {
        for value in [0, -1, 0x5a5a_5a5a_5a5a_5a5a, field.min(), field.max()] {
            let mut bytes = pattern.to_vec();
            set(&mut bytes, offset, field, value);
            assert_eq!(get(&bytes, offset, field), field.value_of(value as u64));
            let end = offset + u64::from(field.bits());
            for at in (0..offset).chain(end..pattern.len() as u64 * 8) {
                assert_eq!(read_slowly(&bytes, at, 1), read_slowly(pattern, at, 1));
            }
        }
    }

    #[test]
    fn bits_past_the_end_are_zero() {
        assert_eq!(get(b"", 0, field("u8")), 0);
        assert_eq!(get(b"\xff", 0, field("i64")), (0xffu64 << 56) as i64);
        assert_eq!(get(b"\xff", 4, field("u8")), 0xf0);
        assert_eq!(get(b"\xff", u64::MAX >> 1, field("u8")), 0);
    }
}
