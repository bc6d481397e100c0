//! Every part of a block comes back, at every length.

use super::view::int_from_bytes;
use super::*;

fn check(content: Content<'_>) -> usize {
    let used = bytes_for(content.key, content.expire_at, content.value.len());
    let mut block = vec![0xee; block_bytes_for(used)];
    write(&mut block, &content);
    let view = View::of(&block);
    assert_eq!(view.form(), content.form);
    assert_eq!(view.stamp(), content.stamp);
    assert_eq!(view.expire_at(), content.expire_at);
    assert_eq!(view.value(), content.value);
    if let KeyPart::Inline(key) = content.key {
        assert_eq!(holds_key(&block, key), Some(true));
        let mut other = key.to_vec();
        other.push(b'x');
        assert_eq!(holds_key(&block, &other), Some(false));
        if let Some(last) = key.len().checked_sub(1) {
            other.truncate(key.len());
            other[last] ^= 1;
            assert_eq!(holds_key(&block, &other), Some(false));
        }
    }
    match (view.key(), content.key) {
        (KeyPart::Inline(a), KeyPart::Inline(b)) => assert_eq!(a, b),
        (KeyPart::Outside { index: a, hash: x }, KeyPart::Outside { index: b, hash: y }) => {
            assert_eq!((a, x), (b, y));
        }
        _ => panic!("the key changed its place"),
    }
    block.len()
}

#[test]
fn every_part_comes_back_at_every_length() {
    let bytes = [0x5a; 2048];
    let times = [None, Some(EXPIRE_BASE_MS), Some(1_764_550_000_000), Some(5), Some(u64::MAX >> 1)];
    let step = if cfg!(miri) { 37 } else { 1 };
    for key_len in (0..150).step_by(step).chain([62, 63, 128, INLINE_KEY_MAX]) {
        for value_len in (0..170).step_by(step).chain([400, 800]) {
            for expire_at in times {
                check(Content {
                    form: Form::string(Encoding::Bytes),
                    stamp: 0xabcdef,
                    expire_at,
                    key: KeyPart::Inline(&bytes[..key_len]),
                    value: &bytes[..value_len],
                });
            }
        }
    }
}

#[test]
fn a_value_is_overwritten_where_the_class_stays() {
    let bytes = [0x5a; 600];
    for key_len in [0, 3, 10, 62, 63, 127, 128, 300] {
        for old_len in (0..170).step_by(if cfg!(miri) { 41 } else { 1 }) {
            let (key, value) = (KeyPart::Inline(&bytes[..key_len]), &bytes[..old_len]);
            let form = Form::string(Encoding::Bytes);
            let old = Content { form, stamp: 7, expire_at: Some(5), key, value };
            let class = |len| block_bytes_for(bytes_for(key, Some(5), len));
            let mut block = vec![0; class(old_len)];
            write(&mut block, &old);
            for len in (0..old_len + 12).step_by(if cfg!(miri) { 31 } else { 1 }) {
                let value = vec![b'v'; len];
                let done = overwrite_value(&mut block, Form::string(Encoding::Raw), &value);
                assert_eq!(done, class(len) == block.len());
                if done {
                    let content =
                        Content { form: Form::string(Encoding::Raw), value: &value, ..old };
                    let mut fresh = block.clone();
                    write(&mut fresh, &content);
                    assert_eq!(block, fresh);
                }
            }
        }
    }
}

#[test]
fn keys_outside_come_back() {
    let key = KeyPart::Outside { index: 77, hash: 0x0123_4567_89ab_cdef };
    let form = Form::string(Encoding::Large);
    check(Content { form, stamp: 1, expire_at: None, key, value: &[1, 2, 3, 4] });
}

#[test]
fn blocks_are_as_small_as_the_budgets_need() {
    let key = KeyPart::Inline(&[b'k'; 10]);
    let size = |expire_at, value: &[u8]| {
        check(Content { form: Form::string(Encoding::Bytes), stamp: 0, expire_at, key, value })
    };
    let time = Some(1_764_550_000_000);
    assert_eq!(size(None, &[0; 1]), 16);
    assert_eq!(size(None, &[0; 2]), 20);
    assert_eq!(size(None, &[0; 16]), 32);
    assert_eq!(size(time, &[0; 16]), 36);
    assert_eq!(size(None, &[0; 128]), 144);
    assert!(size(None, &[0; 1024]) <= 1072);
}

#[test]
fn integers_take_the_fewest_bytes() {
    for value in [0, 1, -1, 127, 128, -128, -129, 32767, 32768, 1 << 31, i64::MAX, i64::MIN] {
        assert_eq!(int_from_bytes(IntBytes::new(value).as_slice()), value);
    }
    let len = |value| IntBytes::new(value).as_slice().len();
    assert_eq!([len(127), len(128), len(32768), len(1 << 31)], [1, 2, 4, 8]);
}

/// The examples of docs/formats/block.md.
#[test]
fn documented_examples_are_true() {
    let stamp = 0x002d_5bc4;
    let mut block = [0xcc; 16];
    let (key, value) = (KeyPart::Inline(b"counter:01"), &[7][..]);
    let counter = Content { form: Form::string(Encoding::Int), stamp, expire_at: None, key, value };
    write(&mut block, &counter);
    assert_eq!(block, *b"\x10\xc4\x5b\x2d\xa1counter:01\x07");

    let mut block = [0xcc; 24];
    let (key, value) = (KeyPart::Inline(b"k"), &b"hello world"[..]);
    let expire_at = Some(EXPIRE_BASE_MS + 100_000);
    write(
        &mut block,
        &Content { form: Form::string(Encoding::Bytes), stamp, expire_at, key, value },
    );
    assert_eq!(block, *b"\x40\xc4\x5b\x2d\x06\xa0\x86\x01\x00\x00khello world\xcc\xcc");
}
