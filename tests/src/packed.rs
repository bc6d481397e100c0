//! Listpacks and intsets under foreign bytes, and round trips of what is sound.

use encodings::intset::{self, Intset};
use encodings::listpack::{self, Listpack};

/// Reads bytes that may be anything as elements, in both forms and in Redis's, and as an intset.
pub fn check_packed(data: &[u8]) {
    if Listpack::<false>::validate(data).is_ok() {
        check_elements(Listpack::<false>::new(data));
    }
    if Listpack::<true>::validate(data).is_ok() {
        check_elements(Listpack::<true>::new(data));
    }
    if let Ok((list, count)) = listpack::from_redis(data) {
        assert_eq!(list.len(), count);
        check_elements(list);
    }
    if let Ok(bytes) = intset::from_redis(data) {
        let set = Intset::new(&bytes);
        assert!(set.iter().all(|value| set.contains(value)));
        assert_eq!(set.to_redis(), data);
    }
}

fn check_elements<const BACK: bool>(list: Listpack<'_, BACK>) {
    let elements: Vec<_> = list.iter().map(|(_, element)| element).collect();
    assert_eq!(elements.len(), list.len());
    for (offset, element) in list.iter() {
        let text = element.to_vec();
        assert_eq!(text.len(), element.text_len());
        // Foreign bytes may hold a number in more bytes than it needs, or as text.
        let stored = list.skip(offset) - offset;
        if listpack::Element::parse(&text) == element && stored == element.stored_len::<BACK>() {
            let found = list.find(&text, 0, 1).expect("an element is found");
            assert!(found <= offset);
        }
    }
    let written = listpack::to_redis(elements.iter().copied());
    let (read, count) = listpack::from_redis(&written).expect("what was written is sound");
    assert_eq!(count, elements.len());
    assert!(read.iter().map(|(_, element)| element).eq(elements));
}
