//! GGUF files: metadata and tensors, every length checked before it is believed.
//!
//! Format: ggml's GGUF version 2 and 3, little-endian. Not here: what an architecture needs of it (`model`).

mod cursor;
mod parse;
mod value;
pub mod write;

use std::collections::HashMap;
use std::path::Path;

pub use value::{Array, Value};

use self::cursor::Cursor;
use super::file::ModelFile;
use super::{Bytes, PairLayout, Tensor, TensorSource};
use crate::error::{Error, Result};
use crate::tensor::DType;
use crate::tensor::dtype::gguf_type_name;

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
    pub start: u64,
}

/// A key with its value and the bytes that spell both.
pub struct Entry {
    /// Decoded value; of an array, where it lies.
    pub value: Value,
    /// The bytes of key, type and value in the file.
    pub bytes: std::ops::Range<u64>,
}

/// A parsed GGUF file; tensors and arrays are read from it when asked for.
///
/// Opening keeps keys, names and single strings, and no array: at most twice the header's bytes, besides the window
/// read ahead and some hundred bytes for each key and tensor (about a dozen megabytes for as many as are believed).
pub struct Gguf {
    file: ModelFile,
    keys: Vec<String>,
    entries: HashMap<String, Entry>,
    tensors: Vec<TensorInfo>,
    index: HashMap<String, usize>,
}

impl Gguf {
    /// Parses `path`.
    pub fn open(path: &Path) -> Result<Self> {
        parse::parse(ModelFile::open(path)?)
    }

    /// SHA-256 of the whole file.
    pub fn sha256(&self) -> Result<[u8; 32]> {
        self.file.sha256()
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

    /// The bytes that spell `key`, its type and its value.
    pub fn entry_bytes(&self, key: &str) -> Result<Vec<u8>> {
        let entry = self.entries.get(key);
        let range = &entry
            .ok_or_else(|| Error::MissingKey(key.to_owned()))?
            .bytes;
        self.file
            .read_at(range.start, (range.end - range.start) as usize)
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

    /// The array under `key`: how long it is, nothing decoded.
    pub fn array(&self, key: &str) -> Result<&Array> {
        self.typed(key, "an array", |value| match value {
            Value::Array(array) => Some(array),
            _ => None,
        })?
        .ok_or_else(|| Error::MissingKey(key.to_owned()))
    }

    /// The strings of the array under `key`, read now; a string that is not UTF-8 is an error only here.
    ///
    /// Takes 24 bytes for each besides its text, which an allocator rounds up: very short strings need up to
    /// seven times their bytes in the file.
    pub fn texts(&self, key: &str) -> Result<Vec<String>> {
        let array = self.array(key)?;
        let texts = Cursor::new(&self.file, array.start).texts_of(array)?;
        texts.ok_or_else(|| only(key, "strings"))
    }

    /// The floating-point numbers of the array under `key`, read now; four bytes each.
    pub fn numbers_f32(&self, key: &str) -> Result<Vec<f32>> {
        self.scalars(key, "floating-point numbers", Value::as_f32)
    }

    /// What `cast` makes of the numbers or flags of the array under `key`, read now; `expected` names them where it
    /// refuses one. Nothing is allocated before it has taken the first.
    pub fn scalars<T>(
        &self,
        key: &str,
        expected: &str,
        cast: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>> {
        let array = self.array(key)?;
        let values = Cursor::new(&self.file, array.start).scalars_of(array, cast)?;
        values.ok_or_else(|| only(key, expected))
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

    /// Where the tensor `name` is.
    fn info(&self, name: &str) -> Result<&TensorInfo> {
        let index = self.index.get(name);
        index
            .map(|index| &self.tensors[*index])
            .ok_or_else(|| Error::MissingTensor(name.to_owned()))
    }
}

fn only(key: &str, expected: &str) -> Error {
    Error::BadKey {
        key: key.to_owned(),
        what: format!("expected {expected} only"),
    }
}

impl TensorSource for Gguf {
    fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        let TensorInfo {
            name,
            shape,
            type_number,
            start,
        } = self.info(name)?.clone();
        let Some(dtype) = DType::from_gguf(type_number) else {
            let (tensor, dtype) = (name, gguf_type_name(type_number));
            return Err(Error::UnsupportedType { tensor, dtype });
        };
        let blocks = shape.iter().product::<usize>() / dtype.block_elements();
        let bytes = Bytes::InFile {
            file: &self.file,
            start,
            len: blocks * dtype.block_bytes(),
        };
        Ok(Tensor {
            name,
            dtype,
            shape,
            bytes,
        })
    }

    fn names(&self) -> Vec<&str> {
        self.tensors
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect()
    }

    fn pair_layout(&self) -> PairLayout {
        match self.optional_str("general.architecture") {
            Ok(Some("llama")) => PairLayout::Neighbours,
            _ => PairLayout::Halves,
        }
    }
}
