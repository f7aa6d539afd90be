//! Block formats against gguf-py's vectors: dequantised values and rounded blocks, bit for bit.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::{Tensors, bits, shared};
use engine::tensor::DType;

#[test]
fn dequantised_values_equal_gguf_py() {
    for (name, dtype) in [("Q8_0", DType::Q8_0), ("Q4_1", DType::Q4_1)] {
        let Some(path) = shared(&format!("golden/quant/dequant_{name}.safetensors")) else {
            return;
        };
        let golden = Tensors::open(&path);
        let expected = golden.f32("values");
        let mut values = vec![0.0; expected.len()];
        dtype.dequantize(golden.raw("blocks"), &mut values);
        assert_eq!(bits(&values), bits(&expected), "{name}");
    }
}

#[test]
fn q8_0_blocks_equal_ggmls_reference_quantiser() {
    let Some(path) = shared("golden/quant/quant_Q8_0.safetensors") else {
        return;
    };
    let golden = Tensors::open(&path);
    assert_eq!(
        engine::weights::quantize::q8_0(&golden.f32("input")),
        golden.raw("blocks")
    );
}
