//! Block formats against gguf-py's vectors: dequantised values and rounded blocks, bit for bit.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Tensors, bits, shared};
use engine::tensor::DType;
use engine::weights::quantize::encode;

#[test]
fn dequantised_values_equal_gguf_py() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_quantized()) {
        let Some(path) = shared(&format!("golden/quant/dequant_{dtype}.safetensors")) else {
            return;
        };
        let golden = Tensors::open(&path);
        let expected = golden.f32("values");
        let mut values = vec![0.0; expected.len()];
        dtype.dequantize(golden.raw("blocks"), &mut values);
        assert!(bits(&values) == bits(&expected), "{dtype}");
    }
}

#[test]
fn bf16_widens_as_the_vectors_say() {
    let Some(path) = shared("golden/quant/dequant_BF16.safetensors") else {
        return;
    };
    let golden = Tensors::open(&path);
    let expected = golden.f32("values");
    let mut values = vec![0.0; expected.len()];
    DType::BF16.dequantize(golden.raw("bits"), &mut values);
    assert!(bits(&values) == bits(&expected));
}

#[test]
fn every_f16_widens_as_the_table_says() {
    let Some(path) = shared("golden/quant/table_f16.safetensors") else {
        return;
    };
    let golden = Tensors::open(&path);
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let mut values = vec![0.0; 1 << 16];
    DType::F16.dequantize(&all, &mut values);
    for (found, expected) in values.iter().zip(golden.f32("f32")) {
        assert!(found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()));
    }
}

#[test]
fn quantised_blocks_equal_ggmls_reference_bytes() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_quantized()) {
        let Some(path) = shared(&format!("golden/quant/quant_{dtype}.safetensors")) else {
            return;
        };
        let golden = Tensors::open(&path);
        assert!(
            encode(dtype, &golden.f32("input")) == golden.raw("blocks"),
            "{dtype}"
        );
    }
}

#[test]
fn rounded_halves_equal_ggmls_bits() {
    let Some(path) = shared("golden/quant/quant_F16_BF16.safetensors") else {
        return;
    };
    let golden = Tensors::open(&path);
    let input = golden.f32("input");
    assert_eq!(encode(DType::F16, &input), golden.raw("f16_bits"));
    assert_eq!(encode(DType::BF16, &input), golden.raw("bf16_bits"));
}
