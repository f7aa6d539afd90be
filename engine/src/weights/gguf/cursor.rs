//! A reading position in untrusted bytes: every read says where it failed instead of running past the end.

use super::value::Value;

/// Longest string believed. Real ones are tokens, and chat templates of some kilobytes.
const STRING_BYTES_MAX: u64 = 1 << 24;
/// Longest array believed; the largest vocabularies have under half a million tokens.
const ARRAY_LEN_MAX: u64 = 1 << 22;
/// Deepest nesting of arrays believed; real files nest none.
const ARRAY_DEPTH_MAX: usize = 2;

/// A failed read: where and why.
pub(super) struct Failure {
    pub(super) offset: usize,
    pub(super) what: String,
}

pub(super) type Read<T> = Result<T, Failure>;

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(super) offset: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub(super) fn fail<T>(&self, what: impl Into<String>) -> Read<T> {
        Err(Failure {
            offset: self.offset,
            what: what.into(),
        })
    }

    pub(super) fn take(&mut self, len: usize, what: &str) -> Read<&'a [u8]> {
        let left = self.bytes.len() - self.offset;
        if len > left {
            return self.fail(format!(
                "the file ends inside {what}: {len} bytes needed, {left} left"
            ));
        }
        let bytes = &self.bytes[self.offset..self.offset + len];
        self.offset += len;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Read<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, what)?);
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A count, refused above `limit`.
    pub(super) fn count(&mut self, limit: u64, what: &str) -> Read<usize> {
        let start = self.offset;
        let count = self.u64(what)?;
        if count > limit {
            let what = format!("{what} is {count}; at most {limit} is believed");
            return Err(Failure {
                offset: start,
                what,
            });
        }
        Ok(count as usize)
    }

    pub(super) fn text(&mut self, what: &str) -> Read<String> {
        let len = self.count(STRING_BYTES_MAX, what)?;
        let start = self.offset;
        let bytes = self.take(len, what)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Failure {
            offset: start,
            what: format!("{what} is not UTF-8"),
        })
    }

    pub(super) fn value(&mut self, depth: usize) -> Read<Value> {
        let type_number = self.u32("a value type")?;
        self.value_of(type_number, depth)
    }

    fn value_of(&mut self, type_number: u32, depth: usize) -> Read<Value> {
        const WHAT: &str = "a metadata value";
        Ok(match type_number {
            0 => Value::Unsigned(u64::from(u8::from_le_bytes(self.array(WHAT)?))),
            1 => Value::Signed(i64::from(i8::from_le_bytes(self.array(WHAT)?))),
            2 => Value::Unsigned(u64::from(u16::from_le_bytes(self.array(WHAT)?))),
            3 => Value::Signed(i64::from(i16::from_le_bytes(self.array(WHAT)?))),
            4 => Value::Unsigned(u64::from(self.u32(WHAT)?)),
            5 => Value::Signed(i64::from(i32::from_le_bytes(self.array(WHAT)?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(self.array(WHAT)?))),
            7 => match self.array::<1>(WHAT)?[0] {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => return self.fail(format!("boolean {other} is neither 0 nor 1")),
            },
            8 => Value::Text(self.text("a string value")?),
            9 => self.array_value(depth)?,
            10 => Value::Unsigned(self.u64(WHAT)?),
            11 => Value::Signed(i64::from_le_bytes(self.array(WHAT)?)),
            12 => Value::Float(f64::from_le_bytes(self.array(WHAT)?)),
            other => return self.fail(format!("value type {other} is unknown")),
        })
    }

    fn array_value(&mut self, depth: usize) -> Read<Value> {
        if depth >= ARRAY_DEPTH_MAX {
            return self.fail(format!("arrays nest deeper than {ARRAY_DEPTH_MAX}"));
        }
        let element = self.u32("an array's element type")?;
        let len = self.count(ARRAY_LEN_MAX, "an array length")?;
        // Not reserved up front: a forged length must not allocate before its bytes are seen.
        let mut values = Vec::new();
        for _ in 0..len {
            values.push(self.value_of(element, depth + 1)?);
        }
        Ok(Value::Array(values))
    }
}
