//! Writes GGUF version 3: metadata entries as raw bytes, tensors with their data.
//!
//! Deterministic: the same entries and tensors give the same file. Not here: what the tensors hold (`quantize`).

use std::io::{self, Write};

/// Alignment of tensor data, the format's default.
const ALIGNMENT: usize = 32;
/// The format's numbers of value types.
const TYPE_U32: u32 = 4;
const TYPE_F32: u32 = 6;
const TYPE_TEXT: u32 = 8;
const TYPE_ARRAY: u32 = 9;

/// A tensor to be written.
pub struct OutTensor {
    /// Its name.
    pub name: String,
    /// Shape, innermost first.
    pub shape: Vec<usize>,
    /// GGUF type number.
    pub type_number: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A metadata entry holding an unsigned 32-bit integer.
pub fn u32_entry(key: &str, value: u32) -> Vec<u8> {
    entry(key, TYPE_U32, &value.to_le_bytes())
}

/// A metadata entry holding a 32-bit float.
pub fn f32_entry(key: &str, value: f32) -> Vec<u8> {
    entry(key, TYPE_F32, &value.to_le_bytes())
}

/// A metadata entry holding text.
pub fn text_entry(key: &str, value: &str) -> Vec<u8> {
    entry(key, TYPE_TEXT, &text(value))
}

/// A metadata entry holding an array of texts.
pub fn texts_entry<T: AsRef<str>>(key: &str, values: &[T]) -> Vec<u8> {
    let mut array = TYPE_TEXT.to_le_bytes().to_vec();
    array.extend_from_slice(&(values.len() as u64).to_le_bytes());
    for value in values {
        array.extend_from_slice(&text(value.as_ref()));
    }
    entry(key, TYPE_ARRAY, &array)
}

fn entry(key: &str, value_type: u32, value: &[u8]) -> Vec<u8> {
    let mut entry = text(key);
    entry.extend_from_slice(&value_type.to_le_bytes());
    entry.extend_from_slice(value);
    entry
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Writes a whole file to `out`.
pub fn write(out: &mut impl Write, entries: &[Vec<u8>], tensors: &[OutTensor]) -> io::Result<()> {
    let mut header = b"GGUF".to_vec();
    header.extend_from_slice(&3_u32.to_le_bytes());
    header.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
    header.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    for entry in entries {
        header.extend_from_slice(entry);
    }
    let mut offset = 0_usize;
    for tensor in tensors {
        header.extend_from_slice(&text(&tensor.name));
        header.extend_from_slice(&(tensor.shape.len() as u32).to_le_bytes());
        for &dimension in &tensor.shape {
            header.extend_from_slice(&(dimension as u64).to_le_bytes());
        }
        header.extend_from_slice(&tensor.type_number.to_le_bytes());
        header.extend_from_slice(&(offset as u64).to_le_bytes());
        offset += tensor.bytes.len().next_multiple_of(ALIGNMENT);
    }
    pad(&mut header);
    out.write_all(&header)?;
    for tensor in tensors {
        out.write_all(&tensor.bytes)?;
        let padding = tensor.bytes.len().next_multiple_of(ALIGNMENT) - tensor.bytes.len();
        out.write_all(&[0; ALIGNMENT][..padding])?;
    }
    Ok(())
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
}
