//! A reading position in an untrusted file: every read says where it failed instead of running past the end.

use super::value::Value;
use crate::error::{Error, Result};
use crate::weights::file::ModelFile;

/// Bytes read ahead.
const WINDOW: u64 = 1 << 20;
/// Longest string believed. Real ones are tokens, and chat templates of some kilobytes.
const STRING_BYTES_MAX: u64 = 1 << 24;
/// Longest array believed; the largest vocabularies have under half a million tokens.
const ARRAY_LEN_MAX: u64 = 1 << 22;
/// Deepest nesting of arrays believed; real files nest none.
const ARRAY_DEPTH_MAX: usize = 2;
/// Memory for decoded array elements besides the file's own size. A vocabulary without weights needs up to 40 MB.
const VALUE_BYTES_SPARE: u64 = 1 << 26;

pub(super) struct Cursor<'a> {
    file: &'a ModelFile,
    window: Vec<u8>,
    window_start: u64,
    pub(super) offset: u64,
    /// Array elements that may still be decoded: one of a byte takes thirty in memory.
    elements_left: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: &'a ModelFile) -> Self {
        Self {
            file,
            window: Vec::new(),
            window_start: 0,
            offset: 0,
            elements_left: (file.len() + VALUE_BYTES_SPARE) / size_of::<Value>() as u64,
        }
    }

    pub(super) fn fail<T>(&self, what: impl Into<String>) -> Result<T> {
        self.fail_at(self.offset, what)
    }

    pub(super) fn fail_at<T>(&self, offset: u64, what: impl Into<String>) -> Result<T> {
        Err(self.error(offset, what))
    }

    fn error(&self, offset: u64, what: impl Into<String>) -> Error {
        self.file.malformed(offset, what.into())
    }

    pub(super) fn take(&mut self, len: usize, what: &str) -> Result<&[u8]> {
        let left = self.file.len() - self.offset;
        if len as u64 > left {
            return self.fail(format!(
                "the file ends inside {what}: {len} bytes needed, {left} left"
            ));
        }
        let mut start = (self.offset - self.window_start) as usize;
        if start + len > self.window.len() {
            let fill = WINDOW.max(len as u64).min(left);
            self.window = self.file.read_at(self.offset, fill as usize)?;
            self.window_start = self.offset;
            start = 0;
        }
        self.offset += len as u64;
        Ok(&self.window[start..start + len])
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, what)?);
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A count, refused above `limit`.
    pub(super) fn count(&mut self, limit: u64, what: &str) -> Result<usize> {
        let start = self.offset;
        let count = self.u64(what)?;
        if count > limit {
            return self.fail_at(
                start,
                format!("{what} is {count}; at most {limit} is believed"),
            );
        }
        Ok(count as usize)
    }

    pub(super) fn text(&mut self, what: &str) -> Result<String> {
        let len = self.count(STRING_BYTES_MAX, what)?;
        let start = self.offset;
        let bytes = self.take(len, what)?.to_vec();
        String::from_utf8(bytes).map_err(|_| self.error(start, format!("{what} is not UTF-8")))
    }

    pub(super) fn value(&mut self, depth: usize) -> Result<Value> {
        let type_number = self.u32("a value type")?;
        self.value_of(type_number, depth)
    }

    fn value_of(&mut self, type_number: u32, depth: usize) -> Result<Value> {
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

    fn array_value(&mut self, depth: usize) -> Result<Value> {
        if depth >= ARRAY_DEPTH_MAX {
            return self.fail(format!("arrays nest deeper than {ARRAY_DEPTH_MAX}"));
        }
        let element = self.u32("an array's element type")?;
        let len = self.count(ARRAY_LEN_MAX, "an array length")?;
        let Some(left) = self.elements_left.checked_sub(len as u64) else {
            return self.fail("the arrays take more memory than the file's size allows");
        };
        self.elements_left = left;
        // Not reserved up front: a forged length must not allocate before its bytes are seen.
        let mut values = Vec::new();
        for _ in 0..len {
            values.push(self.value_of(element, depth + 1)?);
        }
        Ok(Value::Array(values))
    }
}
