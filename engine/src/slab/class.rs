//! Size classes: every 4 bytes from 16 to 160, then by at most 3 % up to 2,048.
//!
//! The upper classes are those that cut a span without a rest worth naming: `floor(65536 / n)`,
//! rounded down to 4 bytes, of which each is the largest within 3 % of the one before.

use crate::arena::SPAN_BYTES;

/// Smallest block in bytes.
pub const BLOCK_BYTES_MIN: usize = 16;
/// Up to here classes lie 4 bytes apart.
pub const FINE_BYTES_MAX: usize = 160;
/// Largest block in bytes; what does not fit lives outside the slabs.
pub const BLOCK_BYTES_MAX: usize = 2048;

const FINE_CLASSES: usize = (FINE_BYTES_MAX - BLOCK_BYTES_MIN) / 4 + 1;

const fn next_size(size: usize) -> usize {
    let limit = size + size * 3 / 100;
    let mut best = size + 4;
    let mut count = SPAN_BYTES / size;
    while count > 0 {
        let candidate = (SPAN_BYTES / count) & !3;
        if candidate > limit || candidate > BLOCK_BYTES_MAX {
            break;
        }
        if candidate > best {
            best = candidate;
        }
        count -= 1;
    }
    best
}

const fn count_classes() -> usize {
    let mut count = FINE_CLASSES;
    let mut size = FINE_BYTES_MAX;
    while size < BLOCK_BYTES_MAX {
        size = next_size(size);
        count += 1;
    }
    count
}

/// How many classes there are.
pub const CLASSES: usize = count_classes();

/// Block size of each class in bytes, ascending.
pub static CLASS_BYTES: [u16; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut size = BLOCK_BYTES_MIN;
    let mut class = 0;
    while class < CLASSES {
        sizes[class] = size as u16;
        size = if size < FINE_BYTES_MAX { size + 4 } else { next_size(size) };
        class += 1;
    }
    sizes
};

/// Class for each length in units of 4 bytes.
static CLASS_OF: [u8; BLOCK_BYTES_MAX / 4 + 1] = {
    let mut classes = [0; BLOCK_BYTES_MAX / 4 + 1];
    let mut class = 0;
    let mut units = 0;
    while units < classes.len() {
        while (CLASS_BYTES[class] as usize) < units * 4 {
            class += 1;
        }
        classes[units] = class as u8;
        units += 1;
    }
    classes
};

const _: () = assert!(CLASSES < 200, "a class fits a byte");
const _: () = assert!(SPAN_BYTES / BLOCK_BYTES_MIN <= 1 << 12, "a block number fits 12 bits");

/// Class of the smallest block that holds `len` bytes.
#[inline]
pub(crate) fn class_of(len: usize) -> u8 {
    CLASS_OF[len.div_ceil(4)]
}

/// Size in bytes of the smallest block that holds `len` bytes (at most [`BLOCK_BYTES_MAX`]).
#[inline]
pub fn block_bytes_for(len: usize) -> usize {
    CLASS_BYTES[class_of(len) as usize] as usize
}

/// Blocks in a span of a class.
pub(crate) fn capacity(class: u8) -> u16 {
    (SPAN_BYTES / CLASS_BYTES[class as usize] as usize) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend_in_small_steps_and_end_at_the_maximum() {
        assert_eq!(CLASS_BYTES[0], 16);
        assert_eq!(CLASS_BYTES[CLASSES - 1], 2048);
        for pair in CLASS_BYTES.windows(2) {
            let (small, large) = (f64::from(pair[0]), f64::from(pair[1]));
            assert!(large > small && pair[1] % 4 == 0);
            assert!(large - small <= 4.0 || large <= small * 1.0301, "{small} {large}");
        }
    }

    #[test]
    fn a_length_gets_the_smallest_block_that_holds_it() {
        for len in 0..=BLOCK_BYTES_MAX {
            let class = class_of(len) as usize;
            assert!(CLASS_BYTES[class] as usize >= len);
            assert!(class == 0 || (CLASS_BYTES[class - 1] as usize) < len);
        }
    }
}
