//! What traces say of settings and memory, held against what run.json says of machine and model: asserted on both sides,
//! but they must be possible together.
//!
//! Not here: whether either is true.

use crate::arms::Traces;
use crate::line::{End, Settings};
use crate::notebook::{Layer, Notebook, quote};
use crate::record::{Machine, Numbers, Record};
use crate::trace::Trace;

/// Checks every trace of ours.
pub(crate) fn check(record: &Record, traces: &Traces, notes: &mut Notebook) {
    for (name, trace) in traces {
        notes.open(&format!("trace/{name}.jsonl"));
        let settings = &trace.begin.settings;
        notes.turn_to(Some(1)); // `begin`
        check_settings(settings, &record.machine, notes);
        if let Some(end) = &trace.end {
            notes.turn_to(Some(trace.lines));
            check_memory(end, settings, &record.machine, notes);
            check_tree(end, trace, notes);
            if let Some(numbers) = &record.model.numbers {
                check_pages(end, trace, numbers, notes);
            }
        }
    }
}

fn check_settings(settings: &Settings, machine: &Machine, notes: &mut Notebook) {
    let needed: &[&str] = match settings.kernels.as_str() {
        "avx2" => &["avx2", "fma"],
        "avx512" => &["avx2", "fma", "avx512f"],
        _ => &[],
    };
    let has = |name: &&str| machine.isa.iter().any(|it| it == name);
    notes.check(Layer::Settings, needed.iter().all(has), || {
        let (kernels, isa) = (quote(&settings.kernels), quote(&machine.isa));
        format!("settings.kernels is {kernels}, but the machine of run.json has {isa}")
    });
}

/// Bytes of the keys, or of the values, of one position of a head.
fn head_bytes(settings: &Settings, head_dim: u64) -> u64 {
    match settings.kv_dtype.as_str() {
        "f32" => head_dim.saturating_mul(4),
        // One byte each, and a scale of two for every 32.
        "q8_0" => (head_dim.div_ceil(32).saturating_mul(2)).saturating_add(head_dim),
        _ => head_dim.saturating_mul(2),
    }
}

/// What the bytes of every page are a multiple of, whatever the model.
fn page_unit_bytes(settings: &Settings) -> u64 {
    let of_element = match settings.kv_dtype.as_str() {
        "f32" => 4,
        "q8_0" => 1,
        _ => 2,
    };
    settings
        .page_positions
        .max(1)
        .saturating_mul(2 * of_element)
}

/// The cache is whole pages of keys and values, and lies in the machine's memory.
fn check_memory(end: &End, settings: &Settings, machine: &Machine, notes: &mut Notebook) {
    let least_page_bytes = page_unit_bytes(settings);
    let bytes = end.kv_bytes_peak;
    notes.check(
        Layer::Memory,
        bytes.is_multiple_of(least_page_bytes),
        || format!("kv_bytes_peak is {bytes}, no multiple of a page of {least_page_bytes} bytes"),
    );
    for (name, bytes) in [
        ("kv_bytes_peak", Some(end.kv_bytes_peak)),
        ("rss_bytes_peak", end.rss_bytes_peak),
    ] {
        check_machine(name, bytes, machine, notes);
    }
}

/// So much was held, if it is known, as lies in the machine's memory.
#[track_caller]
pub(crate) fn check_machine(
    name: &str,
    bytes: Option<u64>,
    machine: &Machine,
    notes: &mut Notebook,
) {
    let most = machine.memory_bytes; // 0: the machine would not say
    let fits = most == 0 || bytes.unwrap_or(0) <= most;
    notes.check(Layer::Memory, fits, || {
        format!("{name} is {bytes:?}, the machine of run.json has {most} bytes")
    });
}

/// The cache held at least the positions that requests were decoding from, and at most its pages.
fn check_pages(end: &End, trace: &Trace, numbers: &Numbers, notes: &mut Notebook) {
    let settings = &trace.begin.settings;
    let product = |factors: &[u64]| factors.iter().fold(1, |all, it| all * u128::from(*it));
    let of_head = head_bytes(settings, numbers.head_dim);
    let position_bytes = product(&[2, numbers.layers, numbers.kv_heads, of_head]);
    let least = position_bytes * u128::from(trace.held_positions);
    let most = position_bytes * product(&[settings.page_positions, settings.kv_pages]);
    let bytes = end.kv_bytes_peak;
    notes.check(Layer::Memory, (least..=most).contains(&bytes.into()), || {
        let held = trace.held_positions;
        format!("kv_bytes_peak is {bytes}: {held} positions were held, which take {least}, and all pages have {most}")
    });
    notes.recomputed("memory limits", 2);
}

/// The cache has room for the tree it says it ended with, of pages as small as they can be.
fn check_tree(end: &End, trace: &Trace, notes: &mut Notebook) {
    let settings = &trace.begin.settings;
    let page_bytes =
        head_bytes(settings, 1).saturating_mul(settings.page_positions.saturating_mul(2));
    let (pages, most) = (trace.kv_nodes.unwrap_or(0), end.kv_bytes_peak);
    notes.check(
        Layer::Memory,
        pages.saturating_mul(page_bytes) <= most,
        || {
            format!(
                "kv_bytes_peak is {most}, too little for the {pages} pages of the tree at the end"
            )
        },
    );
}
