//! Temporary: superseded.
use crate::Corrupt;
use crate::integer::{TEXT_LEN_MAX, format_i64, parse_i64, text_len};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    Int(i64),
    Bytes(&'a [u8]),
}
impl<'a> Element<'a> {
    pub fn parse(bytes: &'a [u8]) -> Element<'a> {
        if bytes.len() <= TEXT_LEN_MAX && let Some(v) = parse_i64(bytes) { return Element::Int(v); }
        Element::Bytes(bytes)
    }
    pub fn text<'r>(&'r self, room: &'r mut [u8; TEXT_LEN_MAX]) -> &'r [u8] {
        match self { Element::Int(v) => format_i64(*v, room), Element::Bytes(b) => b }
    }
    pub fn text_len(&self) -> usize { match self { Element::Int(v) => text_len(*v), Element::Bytes(b) => b.len() } }
    pub fn is(&self, text: &[u8]) -> bool { *self == Element::parse(text) }
    pub fn to_vec(&self) -> Vec<u8> { self.text(&mut [0; TEXT_LEN_MAX]).to_vec() }
}
#[derive(Clone, Copy)]
pub struct Listpack<'a, const BACK: bool> { bytes: &'a [u8] }
impl<'a, const BACK: bool> Listpack<'a, BACK> {
    pub fn new(bytes: &'a [u8]) -> Self { Self { bytes } }
    pub fn validate(bytes: &[u8]) -> Result<usize, Corrupt> {
        let list = Listpack::<BACK> { bytes };
        let (mut at, mut n) = (0, 0);
        while at < bytes.len() { at = list.checked(at).ok_or(Corrupt)?; n += 1; }
        Ok(n)
    }
    fn checked(&self, at: usize) -> Option<usize> {
        let b = self.bytes; let l = b[at];
        let end = at + match l { 0..=0x7f => 1, 0x80..=0xbf => 1 + (l & 0x3f) as usize, 0xc0..=0xdf => 2,
            0xe0..=0xef => 2 + (((l & 15) as usize) << 8 | *b.get(at + 1)? as usize), 0xf1 => 3, 0xf2 => 4, 0xf3 => 5, 0xf4 => 9,
            0xf0 => 5 + u32::from_le_bytes(b.get(at + 1..at + 5)?.try_into().ok()?) as usize, _ => return None };
        (end <= b.len()).then_some(end)
    }
    pub fn bytes(&self) -> &'a [u8] { self.bytes }
    pub fn len(&self) -> usize { let (mut at, mut n) = (0, 0); while at < self.bytes.len() { at = self.skip(at); n += 1; } n }
    pub fn is_empty(&self) -> bool { self.bytes.is_empty() }
    pub fn skip(&self, at: usize) -> usize { self.checked(at).expect("sound") }
    pub fn read(&self, at: usize) -> (Element<'a>, usize) {
        let b = self.bytes; let l = b[at]; let end = self.skip(at);
        let int = |n: usize| { let mut w = [0u8; 8]; w[..n].copy_from_slice(&b[at + 1..at + 1 + n]); let s = 64 - 8 * n as u32; (i64::from_le_bytes(w) << s) >> s };
        (match l { 0..=0x7f => Element::Int(l as i64), 0x80..=0xbf => Element::Bytes(&b[at + 1..end]),
            0xc0..=0xdf => { let v = ((l & 0x1f) as i64) << 8 | b[at + 1] as i64; Element::Int(if v >= 4096 { v - 8192 } else { v }) }
            0xe0..=0xef => Element::Bytes(&b[at + 2..end]), 0xf1 => Element::Int(int(2)), 0xf2 => Element::Int(int(3)), 0xf3 => Element::Int(int(4)), 0xf4 => Element::Int(int(8)),
            _ => Element::Bytes(&b[at + 5..end]) }, end)
    }
    pub fn find(&self, text: &[u8], from: usize, stride: usize) -> Option<usize> {
        let want = Element::parse(text); let mut at = from;
        while at < self.bytes.len() {
            if self.read(at).0 == want { return Some(at); }
            for _ in 0..stride { at = self.skip(at); }
        }
        None
    }
}
pub fn push<const BACK: bool>(out: &mut Vec<u8>, element: Element<'_>) {
    match element {
        Element::Int(v @ 0..=127) => out.push(v as u8),
        Element::Int(v @ -4096..=4095) => { let u = if v < 0 { v + 8192 } else { v }; out.push(0xc0 | (u >> 8) as u8); out.push(u as u8); }
        Element::Int(v) if v == v as i16 as i64 => { out.push(0xf1); out.extend((v as i16).to_le_bytes()); }
        Element::Int(v) if (-(1 << 23)..1 << 23).contains(&v) => { out.push(0xf2); out.extend(&v.to_le_bytes()[..3]); }
        Element::Int(v) if v == v as i32 as i64 => { out.push(0xf3); out.extend((v as i32).to_le_bytes()); }
        Element::Int(v) => { out.push(0xf4); out.extend(v.to_le_bytes()); }
        Element::Bytes(b) => {
            match b.len() { n @ 0..=63 => out.push(0x80 | n as u8), n @ 64..=4095 => { out.push(0xe0 | (n >> 8) as u8); out.push(n as u8); }
                n => { out.push(0xf0); out.extend((n as u32).to_le_bytes()); } }
            out.extend_from_slice(b);
        }
    }
}
