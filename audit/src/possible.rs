//! What traces say of settings and memory, held against what run.json says of machine and model: asserted on both sides,
//! but they must be possible together.
//!
//! Not here: whether either is true.

use crate::figures::Traces;
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
            if let Some(numbers) = &record.model.numbers {
                check_pages(end, trace, numbers, notes);
            }
        }
    }
}

fn check_settings(settings: &Settings, machine: &Machine, notes: &mut Notebook) {
    let of_mode = if settings.mode == "exact" {
        "f32"
    } else {
        "f16"
    };
    let dtype = settings.kv_dtype.as_str();
    notes.same(Layer::Settings, "settings.kv_dtype", dtype, of_mode);
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

fn element_bytes(settings: &Settings) -> u64 {
    if settings.kv_dtype == "f32" { 4 } else { 2 }
}

/// The cache is whole pages of keys and values, and lies in the machine's memory.
fn check_memory(end: &End, settings: &Settings, machine: &Machine, notes: &mut Notebook) {
    let least_page_bytes = 2 * settings.page_positions.max(1) * element_bytes(settings);
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
        let most = machine.memory_bytes; // 0: the machine would not say
        let fits = most == 0 || bytes.unwrap_or(0) <= most;
        notes.check(Layer::Memory, fits, || {
            format!("{name} is {bytes:?}, the machine of run.json has {most} bytes")
        });
    }
}

/// The cache held at least the positions that requests were decoding from, and at most its pages.
fn check_pages(end: &End, trace: &Trace, numbers: &Numbers, notes: &mut Notebook) {
    let settings = &trace.begin.settings;
    let product = |factors: &[u64]| factors.iter().fold(1, |all, it| all * u128::from(*it));
    let of_model = [2, numbers.layers, numbers.kv_heads, numbers.head_dim];
    let position_bytes = product(&of_model) * u128::from(element_bytes(settings));
    let least = position_bytes * u128::from(trace.held_positions);
    let most = position_bytes * product(&[settings.page_positions, settings.kv_pages]);
    let bytes = end.kv_bytes_peak;
    notes.check(Layer::Memory, (least..=most).contains(&bytes.into()), || {
        let held = trace.held_positions;
        format!("kv_bytes_peak is {bytes}: {held} positions were held, which take {least}, and all pages have {most}")
    });
    notes.recomputed("memory limits", 2);
}
