//! Random damage to bytes, the same for the same seed.
//!
//! Not here: what the bytes are; a format's own words and whole files come from its target.

/// Inputs are cut here, so that a case's time says something about the code and not about the input.
const LEN_MAX: usize = 1 << 16;
/// Integers at which arithmetic goes wrong.
const EXTREMES: [u64; 16] = [
    0,
    1,
    2,
    3,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 40,
    1 << 62,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// The splitmix64 generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, or 0 where there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// A span of at most `longest` bytes inside `len`; short ones are likelier.
    fn span(&mut self, len: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        let longest = 1 + self.below(longest);
        start..(start + self.below(longest + 1)).min(len)
    }

    fn extreme(&mut self) -> u64 {
        let extreme = *self.of(&EXTREMES);
        extreme.wrapping_add(*self.of(&[0, 0, 1, u64::MAX]))
    }
}

/// A damaged copy of one of `seeds`.
pub(crate) fn mutant(random: &mut Random, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut bytes = random.of(seeds).clone();
    for _ in 0..=random.below(4) {
        damage(random, &mut bytes, seeds, words);
        bytes.truncate(LEN_MAX);
    }
    bytes
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    let at = random.below(bytes.len());
    match random.below(9) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = random.extreme() as u8,
        2 => overwrite(random, bytes, at),
        3 => lie_about_a_length(random, bytes),
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(random.span(bytes.len(), 64))),
        6 => {
            let copy = bytes[random.span(bytes.len(), 256)].to_vec();
            bytes.splice(at..at, copy);
        }
        7 => {
            let other = random.of(seeds);
            let piece = other[random.span(other.len(), 256)].to_vec();
            let span = random.span(bytes.len(), 64);
            bytes.splice(span, piece);
        }
        _ => {
            let word = random.of(words).bytes();
            let span = random.span(bytes.len(), 8);
            bytes.splice(span, word);
        }
    }
}

/// Writes an extreme integer of 1, 4 or 8 bytes over what is there.
fn overwrite(random: &mut Random, bytes: &mut [u8], at: usize) {
    let width = *random.of(&[1, 4, 8]);
    let extreme = random.extreme().to_le_bytes();
    let end = (at + width).min(bytes.len());
    bytes[at..end].copy_from_slice(&extreme[..end - at]);
}

/// Finds what may be a length, 8 bytes little-endian or decimal digits, and replaces it.
fn lie_about_a_length(random: &mut Random, bytes: &mut Vec<u8>) {
    let from = random.below(bytes.len());
    let small = |window: &[u8]| {
        let value = window.iter().rev().fold(0_u64, |n, &b| n << 8 | b as u64);
        value > 0 && value < LEN_MAX as u64
    };
    let extreme = random.extreme();
    let binary = bytes[from..].windows(8).position(small);
    if let Some(at) = binary.filter(|_| random.below(2) == 0) {
        bytes[from + at..from + at + 8].copy_from_slice(&extreme.to_le_bytes());
        return;
    }
    if let Some(at) = bytes[from..].iter().position(u8::is_ascii_digit) {
        let start = from + at;
        let digits = bytes[start..].iter().take_while(|b| b.is_ascii_digit());
        let end = start + digits.count();
        bytes.splice(start..end, extreme.to_string().bytes());
    }
}
