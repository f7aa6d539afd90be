//! GGUF files: metadata and tensors, every length checked before it is believed.
//!
//! Format: ggml's GGUF version 2 and 3, little-endian. Not here: what an architecture needs of it (`model`).

mod cursor;
mod parse;
mod value;
pub mod write;

use std::collections::HashMap;
use std::path::Path;

pub use value::Value;

use super::TensorSource;
use super::map::MappedFile;
use crate::error::{Error, Result};
use crate::tensor::dtype::gguf_type_name;
use crate::tensor::{DType, PackedMatrix};

/// A tensor of the file: where it is and what it holds.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Shape, innermost first.
    pub shape: Vec<usize>,
    /// GGUF type number, computable or not.
    pub type_number: u32,
    /// First byte, from the start of the file.
    pub start: usize,
}

/// A key with its value and the bytes that spell both.
pub struct Entry {
    /// Decoded value.
    pub value: Value,
    /// The bytes of key, type and value in the file.
    pub bytes: std::ops::Range<usize>,
}

/// A parsed GGUF file, still mapped.
pub struct Gguf {
    file: MappedFile,
    keys: Vec<String>,
    entries: HashMap<String, Entry>,
    tensors: Vec<TensorInfo>,
    index: HashMap<String, usize>,
}

impl Gguf {
    /// Maps and parses `path`.
    pub fn open(path: &Path) -> Result<Self> {
        parse::parse(MappedFile::open(path)?)
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        &self.file
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Metadata keys in file order.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The entry of `key`.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The unsigned integer under `key`, if the key is there.
    pub fn optional_usize(&self, key: &str) -> Result<Option<usize>> {
        self.typed(key, "an unsigned integer", Value::as_usize)
    }

    /// The number under `key`, if the key is there.
    pub fn optional_f32(&self, key: &str) -> Result<Option<f32>> {
        self.typed(key, "a floating-point number", Value::as_f32)
    }

    /// The flag under `key`, if the key is there.
    pub fn optional_bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "a boolean", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// The text under `key`, if the key is there.
    pub fn optional_str(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a string", Value::as_str)
    }

    /// The unsigned integer under `key`.
    pub fn usize(&self, key: &str) -> Result<usize> {
        self.optional_usize(key)?
            .ok_or_else(|| Error::MissingKey(key.to_owned()))
    }

    /// The text under `key`.
    pub fn str(&self, key: &str) -> Result<&str> {
        self.optional_str(key)?
            .ok_or_else(|| Error::MissingKey(key.to_owned()))
    }

    /// The array under `key`.
    pub fn array(&self, key: &str) -> Result<&[Value]> {
        self.typed(key, "an array", |value| match value {
            Value::Array(values) => Some(values.as_slice()),
            _ => None,
        })?
        .ok_or_else(|| Error::MissingKey(key.to_owned()))
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        cast: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(entry) = self.entries.get(key) else {
            return Ok(None);
        };
        match cast(&entry.value) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::BadKey {
                key: key.to_owned(),
                what: format!("expected {expected}, found {}", entry.value.kind()),
            }),
        }
    }

    /// The tensor `name` with its computable type and its bytes.
    pub fn tensor(&self, name: &str) -> Result<(&TensorInfo, DType, &[u8])> {
        let index = self
            .index
            .get(name)
            .ok_or_else(|| Error::MissingTensor(name.to_owned()))?;
        let info = &self.tensors[*index];
        let dtype = DType::from_gguf(info.type_number).ok_or_else(|| Error::UnsupportedType {
            tensor: name.to_owned(),
            dtype: gguf_type_name(info.type_number),
        })?;
        let len =
            info.shape.iter().product::<usize>() / dtype.block_elements() * dtype.block_bytes();
        Ok((info, dtype, &self.file[info.start..info.start + len]))
    }

    fn shaped(&self, name: &str, shape: &[usize]) -> Result<(DType, &[u8])> {
        let (info, dtype, bytes) = self.tensor(name)?;
        if info.shape != shape {
            return Err(Error::WrongShape {
                tensor: name.to_owned(),
                expected: shape.to_vec(),
                found: info.shape.clone(),
            });
        }
        Ok((dtype, bytes))
    }
}

impl TensorSource for Gguf {
    fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<PackedMatrix> {
        let (dtype, bytes) = self.shaped(name, &[cols, rows])?;
        Ok(PackedMatrix::pack(dtype, rows, cols, bytes))
    }

    fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let (dtype, bytes) = self.shaped(name, &[len])?;
        let mut values = vec![0.0; len];
        dtype.dequantize(bytes, &mut values);
        Ok(values)
    }

    fn names(&self) -> Vec<&str> {
        self.tensors
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect()
    }
}
