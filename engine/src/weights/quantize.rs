//! Requantises a GGUF file, deterministically: matrices are dequantised to f32 and rounded block by block.
//!
//! The block rules are those of ggml's reference quantisers, the same bytes. Norms stay f32; tensors that already have
//! the target type are copied. Not here: searching for better scales than the reference finds.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use half::{bf16, f16};

use super::gguf::Gguf;
use super::gguf::write::{OutTensor, u32_entry, write};
use super::{Tensor, TensorSource};
use crate::error::{Error, Result};
use crate::tensor::DType;
use crate::tensor::dtype::BLOCK;

/// The key that names the dominant tensor type.
const FILE_TYPE: &str = "general.file_type";

/// llama.cpp's number for a file whose matrices are mostly `dtype`.
fn file_type(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Q4_0 => 2,
        DType::Q4_1 => 3,
        DType::Q8_0 => 7,
        DType::Q5_0 => 8,
        DType::Q5_1 => 9,
        DType::BF16 => 32,
    }
}

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

/// Writes `input` with its matrices as `target` to `output`, which must not exist yet.
pub fn quantize_gguf(input: &Path, output: &Path, target: DType) -> Result<Quantized> {
    let gguf = Gguf::open(input)?;
    let (mut tensors, mut converted) = (Vec::new(), 0);
    for info in gguf.tensors() {
        let Tensor { dtype, bytes, .. } = gguf.tensor(&info.name)?;
        let bytes = bytes.all()?.into_owned();
        let whole_blocks = info.shape[0].is_multiple_of(target.block_elements());
        let round = dtype != target && info.shape.len() == 2 && whole_blocks;
        converted += usize::from(round);
        let (dtype, bytes) = if round {
            let mut values = vec![0.0; info.shape.iter().product()];
            dtype.dequantize(&bytes, &mut values);
            (target, encode(target, &values))
        } else {
            (dtype, bytes)
        };
        tensors.push(OutTensor {
            name: info.name.clone(),
            shape: info.shape.clone(),
            type_number: dtype.gguf(),
            bytes,
        });
    }
    let entry = |key: &String| match key.as_str() {
        FILE_TYPE => Ok(u32_entry(key, file_type(target))),
        _ => gguf.entry_bytes(key),
    };
    let entries: Vec<Vec<u8>> = gguf.keys().iter().map(entry).collect::<Result<_>>()?;
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

/// Encodes `values`, whole blocks, as `dtype`, each block by ggml's reference rule.
pub fn encode(dtype: DType, values: &[f32]) -> Vec<u8> {
    let each = |encode: fn(&[f32], &mut Vec<u8>)| {
        let mut bytes =
            Vec::with_capacity(values.len() / dtype.block_elements() * dtype.block_bytes());
        for block in values.chunks_exact(dtype.block_elements()) {
            encode(block, &mut bytes);
        }
        bytes
    };
    match dtype {
        DType::F32 => each(|x, out| out.extend_from_slice(&x[0].to_le_bytes())),
        DType::F16 => each(|x, out| out.extend_from_slice(&f16::from_f32(x[0]).to_le_bytes())),
        DType::BF16 => each(|x, out| out.extend_from_slice(&bf16::from_f32(x[0]).to_le_bytes())),
        DType::Q4_0 => each(|x, out| from_extreme(x, 4, out)),
        DType::Q5_0 => each(|x, out| from_extreme(x, 5, out)),
        DType::Q4_1 => each(|x, out| from_range(x, 4, out)),
        DType::Q5_1 => each(|x, out| from_range(x, 5, out)),
        DType::Q8_0 => each(q8_0_block),
    }
}

/// Scale = greatest magnitude / 127, weights rounded half away from zero.
fn q8_0_block(block: &[f32], out: &mut Vec<u8>) {
    let greatest = block
        .iter()
        .fold(0.0_f32, |a, x| if x.abs() > a { x.abs() } else { a });
    let scale = greatest / 127.0;
    let inverse = inverse(scale);
    out.extend_from_slice(&f16::from_f32(scale).to_le_bytes());
    out.extend(
        block
            .iter()
            .map(|x| ((x * inverse).round() as i8).cast_unsigned()),
    );
}

/// Q4_0 and Q5_0: the value of greatest magnitude, sign kept, becomes the lowest integer.
fn from_extreme(block: &[f32], bits: u32, out: &mut Vec<u8>) {
    let extreme = block
        .iter()
        .fold(0.0_f32, |a, &x| if x.abs() > a.abs() { x } else { a });
    let offset = (1 << (bits - 1)) as f32;
    let scale = extreme / -offset;
    let inverse = inverse(scale);
    out.extend_from_slice(&f16::from_f32(scale).to_le_bytes());
    pack(block, bits, |x| x * inverse + (offset + 0.5), out);
}

/// Q4_1 and Q5_1: the least value is the minimum, the range is divided evenly.
fn from_range(block: &[f32], bits: u32, out: &mut Vec<u8>) {
    let least = block
        .iter()
        .fold(f32::MAX, |a, &x| if x < a { x } else { a });
    let greatest = block
        .iter()
        .fold(f32::MIN, |a, &x| if x > a { x } else { a });
    let scale = (greatest - least) / ((1 << bits) - 1) as f32;
    let inverse = inverse(scale);
    out.extend_from_slice(&f16::from_f32(scale).to_le_bytes());
    out.extend_from_slice(&f16::from_f32(least).to_le_bytes());
    pack(block, bits, |x| (x - least) * inverse + 0.5, out);
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// Truncates `level(x)` to `bits` bits: fifth bits first where there are five, then nibbles, element i low, i + 16 high.
fn pack(block: &[f32], bits: u32, level: impl Fn(f32) -> f32, out: &mut Vec<u8>) {
    let greatest = (1 << bits) - 1;
    let levels: Vec<u8> = block
        .iter()
        .map(|&x| (level(x) as u8).min(greatest))
        .collect();
    if bits == 5 {
        let fifth = levels
            .iter()
            .enumerate()
            .fold(0_u32, |all, (i, level)| all | u32::from(level >> 4) << i);
        out.extend_from_slice(&fifth.to_le_bytes());
    }
    let (low, high) = levels.split_at(BLOCK / 2);
    out.extend(
        low.iter()
            .zip(high)
            .map(|(low, high)| low & 15 | (high & 15) << 4),
    );
}
