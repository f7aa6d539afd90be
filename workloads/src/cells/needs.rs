//! The bytes and operations a cell needs whoever does it, and how long they take at the machine's ceilings.
//!
//! What is needed, not what is done: a page several agents share counts once, weights once per step that nothing can
//! merge with another. The formulas stand in audit/FORMAT.md. Not here: measuring a ceiling (`harness`).

use super::Cell;
use crate::record::{CeilingsRecord, EffectiveRecord, ModelNumbers, Needs};

/// Sums that outgrow 64 bits would be of no use: limits of the envelope keep real ones far below.
fn fitted(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// Bytes of one cached element.
fn kv_element_bytes(kv_dtype: &str) -> u128 {
    if kv_dtype == "f32" { 4 } else { 2 }
}

/// What `cell` needs of a model run like this, and the time the ceilings allow.
pub fn needs(
    cell: &Cell,
    numbers: &ModelNumbers,
    effective: &EffectiveRecord,
    ceilings: Option<&CeilingsRecord>,
) -> Needs {
    let (agents, depth, shared) = (cell.agents as u128, cell.depth as u128, cell.shared as u128);
    let (steps, prompt) = (cell.decode as u128, cell.prompt as u128);
    // Positions read from the cache, positions attended by all rows, rows, rows with logits, passes over the weights.
    let (read, attended, rows, logit_rows, passes) = if cell.is_decode() {
        let own = steps * (depth + 1 - shared) + steps * (steps - 1) / 2;
        let attended = agents * (steps * (depth + 2) + steps * (steps - 1) / 2);
        (
            steps * shared + agents * own,
            attended,
            agents * steps,
            agents * steps,
            steps,
        )
    } else {
        let attended = agents * (prompt * depth + prompt * (prompt + 1) / 2);
        (
            shared + agents * (depth - shared),
            attended,
            agents * prompt,
            agents,
            1,
        )
    };
    let geometry = numbers.geometry();
    let position_bytes = geometry.position_bytes(kv_element_bytes(&effective.kv_dtype));
    let bytes = passes * u128::from(numbers.weight_bytes) + position_bytes * (read + rows);
    let matrix = geometry.matrix_operations(rows, logit_rows);
    let attention = geometry.attention_operations(attended);
    let mut needs = Needs {
        bytes: fitted(bytes),
        matrix_operations: fitted(matrix),
        attention_operations: fitted(attention),
        limit_ns: None,
        withheld: None,
    };
    needs.limit_ns = ceilings.and_then(|ceilings| limit_ns(&needs, numbers, effective, ceilings));
    if needs.limit_ns.is_none() {
        let threads = effective.threads;
        needs.withheld = Some(format!(
            "no ceilings were measured here for {threads} threads"
        ));
    }
    needs
}

/// The longer of moving the bytes and doing the operations, each at its ceiling.
fn limit_ns(
    needs: &Needs,
    numbers: &ModelNumbers,
    effective: &EffectiveRecord,
    ceilings: &CeilingsRecord,
) -> Option<u64> {
    let rate = |rates: &std::collections::BTreeMap<usize, u64>| {
        let rate = rates.get(&effective.threads).copied();
        rate.filter(|rate| *rate > 0).map(|rate| rate as f64)
    };
    let float = rate(&ceilings.f32_flop_per_s)?;
    let matrix = if numbers.quantized && effective.mode == "fast" {
        rate(&ceilings.int8_op_per_s)?
    } else {
        float
    };
    let moving_s = needs.bytes as f64 / rate(&ceilings.read_bytes_per_s)?;
    let computing_s =
        needs.matrix_operations as f64 / matrix + needs.attention_operations as f64 / float;
    Some((moving_s.max(computing_s) * 1e9).round() as u64)
}
