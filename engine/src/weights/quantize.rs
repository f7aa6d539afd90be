//! Requantises a GGUF file to Q8_0, deterministically: matrices are dequantised to f32 and rounded block by block.
//!
//! The block rule is ggml's reference: scale = greatest magnitude / 127 rounded to f16, weights rounded half away
//! from zero with the scale's f32 value. Norms stay f32; Q8_0 tensors are copied. Not here: other target types.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use half::f16;

use super::gguf::Gguf;
use super::gguf::write::{OutTensor, u32_entry, write};
use crate::error::{Error, Result};
use crate::tensor::DType;
use crate::tensor::dtype::BLOCK;

/// The key that names the dominant tensor type, and its value for Q8_0.
const FILE_TYPE: (&str, u32) = ("general.file_type", 7);

/// What a quantisation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantized {
    /// Tensors rounded anew.
    pub converted: usize,
    /// Tensors taken over byte for byte.
    pub copied: usize,
    /// Size of the file written.
    pub bytes: u64,
}

/// Writes `input` as Q8_0 to `output`, which must not exist yet.
pub fn quantize_gguf(input: &Path, output: &Path) -> Result<Quantized> {
    let gguf = Gguf::open(input)?;
    let (mut tensors, mut converted) = (Vec::new(), 0);
    for info in gguf.tensors() {
        let (_, dtype, bytes) = gguf.tensor(&info.name)?;
        let round =
            dtype != DType::Q8_0 && info.shape.len() == 2 && info.shape[0].is_multiple_of(BLOCK);
        converted += usize::from(round);
        let (dtype, bytes) = if round {
            let mut values = vec![0.0; info.shape.iter().product()];
            dtype.dequantize(bytes, &mut values);
            (DType::Q8_0, q8_0(&values))
        } else {
            (dtype, bytes.to_vec())
        };
        tensors.push(OutTensor {
            name: info.name.clone(),
            shape: info.shape.clone(),
            type_number: dtype.gguf(),
            bytes,
        });
    }
    let entries: Vec<Vec<u8>> = gguf
        .keys()
        .iter()
        .filter_map(|key| {
            if key == FILE_TYPE.0 {
                return Some(u32_entry(key, FILE_TYPE.1));
            }
            gguf.entry(key)
                .map(|entry| gguf.bytes()[entry.bytes.clone()].to_vec())
        })
        .collect();
    let io = |source| Error::Io {
        path: output.to_owned(),
        source,
    };
    let file = File::create_new(output).map_err(io)?;
    let mut out = BufWriter::new(file);
    write(&mut out, &entries, &tensors)
        .and_then(|()| out.flush())
        .map_err(io)?;
    let file = out.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    Ok(Quantized {
        converted,
        copied: tensors.len() - converted,
        bytes,
    })
}

/// Rounds whole blocks of 32 values to Q8_0.
pub fn q8_0(values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() / BLOCK * DType::Q8_0.block_bytes());
    for block in values.chunks_exact(BLOCK) {
        let greatest = block
            .iter()
            .fold(0.0_f32, |a, x| if x.abs() > a { x.abs() } else { a });
        let scale = greatest / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        bytes.extend_from_slice(&f16::from_f32(scale).to_le_bytes());
        bytes.extend(
            block
                .iter()
                .map(|x| ((x * inverse).round() as i8).cast_unsigned()),
        );
    }
    bytes
}
