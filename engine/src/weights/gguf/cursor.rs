//! A reading position in an untrusted file: every read says where it failed instead of running past the end.

use super::value::{Array, Value};
use crate::error::{Error, Result};
use crate::weights::file::ModelFile;

/// Bytes read ahead.
const WINDOW: u64 = 1 << 20;
/// Longest key or tensor name believed, the format's own limit.
const NAME_BYTES_MAX: u64 = (1 << 16) - 1;
/// Longest string believed. Real ones are tokens, and chat templates of some kilobytes.
const STRING_BYTES_MAX: u64 = 1 << 24;
/// Longest array believed; the largest vocabularies have under half a million tokens.
const ARRAY_LEN_MAX: u64 = 1 << 22;
/// Deepest nesting of arrays believed; real files nest none.
const ARRAY_DEPTH_MAX: usize = 2;
/// Type numbers of values that have no fixed size.
const TYPE_TEXT: u32 = 8;
const TYPE_ARRAY: u32 = 9;

pub(super) struct Cursor<'a> {
    file: &'a ModelFile,
    window: Vec<u8>,
    window_start: u64,
    pub(super) offset: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: &'a ModelFile, offset: u64) -> Self {
        Self {
            file,
            window: Vec::new(),
            window_start: offset,
            offset,
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

    /// Moves on by `len` bytes without reading them.
    fn skip(&mut self, len: u64, what: &str) -> Result<()> {
        let left = self.file.len().saturating_sub(self.offset);
        if len > left {
            return self.fail(format!(
                "the file ends inside {what}: {len} bytes needed, {left} left"
            ));
        }
        self.offset += len;
        Ok(())
    }

    pub(super) fn take(&mut self, len: usize, what: &str) -> Result<&[u8]> {
        let from = self.offset;
        self.skip(len as u64, what)?;
        let mut start = (from - self.window_start) as usize;
        if start + len > self.window.len() {
            let fill = WINDOW.max(len as u64).min(self.file.len() - from);
            self.window = self.file.read_at(from, fill as usize)?;
            self.window_start = from;
            start = 0;
        }
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

    /// A key or a tensor's name.
    pub(super) fn name(&mut self, what: &str) -> Result<String> {
        self.text_within(NAME_BYTES_MAX, what)
    }

    fn text(&mut self) -> Result<String> {
        self.text_within(STRING_BYTES_MAX, "a string value")
    }

    fn text_within(&mut self, limit: u64, what: &str) -> Result<String> {
        let len = self.count(limit, what)?;
        let start = self.offset;
        let bytes = if len as u64 > WINDOW {
            // Past the window, so that long text is not held twice.
            self.skip(len as u64, what)?;
            self.file.read_at(start, len)?
        } else {
            self.take(len, what)?.to_vec()
        };
        String::from_utf8(bytes).map_err(|_| self.error(start, format!("{what} is not UTF-8")))
    }

    /// A value and its type; an array is checked and passed over, not decoded.
    pub(super) fn value(&mut self) -> Result<Value> {
        match self.u32("a value type")? {
            TYPE_TEXT => Ok(Value::Text(self.text()?)),
            TYPE_ARRAY => Ok(Value::Array(self.pass_array(0)?)),
            type_number => self.scalar(type_number),
        }
    }

    fn scalar(&mut self, type_number: u32) -> Result<Value> {
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
            10 => Value::Unsigned(self.u64(WHAT)?),
            11 => Value::Signed(i64::from_le_bytes(self.array(WHAT)?)),
            12 => Value::Float(f64::from_le_bytes(self.array(WHAT)?)),
            other => return self.fail(format!("value type {other} is unknown")),
        })
    }

    /// Checks an array's bounds without keeping what is in it.
    fn pass_array(&mut self, depth: usize) -> Result<Array> {
        if depth >= ARRAY_DEPTH_MAX {
            return self.fail(format!("arrays nest deeper than {ARRAY_DEPTH_MAX}"));
        }
        let element = self.u32("an array's element type")?;
        let len = self.count(ARRAY_LEN_MAX, "an array length")?;
        let start = self.offset;
        match element {
            TYPE_TEXT => {
                for _ in 0..len {
                    let bytes = self.count(STRING_BYTES_MAX, "a string value")?;
                    self.skip(bytes as u64, "a string value")?;
                }
            }
            TYPE_ARRAY => {
                for _ in 0..len {
                    self.pass_array(depth + 1)?;
                }
            }
            _ => match scalar_bytes(element) {
                Some(bytes) => self.skip(bytes * len as u64, "an array")?,
                None => return self.fail(format!("value type {element} is unknown")),
            },
        }
        Ok(Array {
            element,
            len,
            start,
        })
    }

    /// The strings of `array`, none if its elements are of another type. An empty array is of every type.
    pub(super) fn texts_of(&mut self, array: &Array) -> Result<Option<Vec<String>>> {
        if array.len > 0 && array.element != TYPE_TEXT {
            return Ok(None);
        }
        // Opening saw eight bytes of file for each of them.
        let mut texts = Vec::with_capacity(array.len);
        for _ in 0..array.len {
            texts.push(self.text()?);
        }
        Ok(Some(texts))
    }

    /// What `cast` makes of the numbers or flags of `array`, none if it refuses one or they are neither.
    pub(super) fn scalars_of<T>(
        &mut self,
        array: &Array,
        cast: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        if array.len > 0 && scalar_bytes(array.element).is_none() {
            return Ok(None);
        }
        let mut values = Vec::new();
        for _ in 0..array.len {
            let Some(value) = cast(&self.scalar(array.element)?) else {
                return Ok(None);
            };
            if values.is_empty() {
                // Only now is the type known to be the one wanted.
                values.reserve_exact(array.len);
            }
            values.push(value);
        }
        Ok(Some(values))
    }
}

/// Bytes of a number or a flag in the file.
fn scalar_bytes(type_number: u32) -> Option<u64> {
    match type_number {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}
