//! What the engine's whole-library tests share: golden files, the pulled model, skipping out loud.
#![allow(dead_code)] // each test file uses its part

pub(crate) mod kernels;
pub(crate) mod kv;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use engine::tensor::{PAGE_POSITIONS, Quants};
use half::f16;

/// A file under the shared test material, or none, said out loud.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared")
        .join(path);
    exists_or_skip(path)
}

/// The pulled SmolLM2 file, or none, said out loud.
pub(crate) fn smollm2() -> Option<PathBuf> {
    let cache = std::env::var_os("FAK_CACHE")
        .map(PathBuf::from)
        .or_else(|| {
            let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
            std::env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or(home)
                .map(|dir| dir.join("fak"))
        });
    exists_or_skip(cache?.join("models/smollm2-135m/model.gguf"))
}

fn exists_or_skip(path: PathBuf) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    skip(&format!(
        "{} is absent",
        path.file_name()?.to_string_lossy()
    ));
    None
}

/// Says that a test did not run, where `./test.sh` counts it.
pub(crate) fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
    if let Some(log) = std::env::var_os("FAK_SKIPS") {
        use std::io::Write;
        let mut log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(log)
            .unwrap();
        writeln!(log, "{why}").unwrap();
    }
}

/// The most memory this process has held, if the system says.
pub(crate) fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes << 10)
}

/// The reference and every other kernel set that this CPU has; one that it lacks is a counted skip.
pub(crate) fn kernel_sets() -> Vec<engine::KernelChoice> {
    use engine::KernelChoice::{Avx2, Avx512, Scalar};
    let mut sets = vec![Scalar];
    for choice in [Avx2, Avx512] {
        match engine::kernels::Kernels::choose(choice) {
            Ok(_) => sets.push(choice),
            Err(error) => skip(&error.to_string()),
        }
    }
    sets
}

/// Puts `bytes` in the place of the file's, without truncating first: some file systems then write to disk at once.
pub(crate) fn overwrite(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    let mut options = std::fs::File::options();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

/// A safetensors file's tensors as f32 or integers.
pub(crate) struct Tensors {
    bytes: Vec<u8>,
    start: usize,
    header: serde_json::Value,
}

impl Tensors {
    pub(crate) fn open(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = serde_json::from_slice(&bytes[8..start]).unwrap();
        Self {
            bytes,
            start,
            header,
        }
    }

    pub(crate) fn raw(&self, name: &str) -> &[u8] {
        let offsets = &self.header[name]["data_offsets"];
        let at = |i: usize| self.start + offsets[i].as_u64().unwrap() as usize;
        &self.bytes[at(0)..at(1)]
    }

    pub(crate) fn f32(&self, name: &str) -> Vec<f32> {
        assert_eq!(self.header[name]["dtype"], "F32", "{name}");
        self.raw(name)
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    pub(crate) fn f64(&self, name: &str) -> Vec<f64> {
        assert_eq!(self.header[name]["dtype"], "F64", "{name}");
        self.raw(name)
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    pub(crate) fn ids(&self, name: &str) -> Vec<u32> {
        let raw = self.raw(name);
        match self.header[name]["dtype"].as_str().unwrap() {
            "I64" => raw
                .chunks_exact(8)
                .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32)
                .collect(),
            "I32" => raw
                .chunks_exact(4)
                .map(|b| i32::from_le_bytes(b.try_into().unwrap()) as u32)
                .collect(),
            other => panic!("{name} has type {other}"),
        }
    }
}

/// Collects what an engine says, by request.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) tokens: HashMap<u64, Vec<u32>>,
    pub(crate) prefix: HashMap<u64, (usize, usize)>,
    pub(crate) last_logits: HashMap<u64, Vec<f32>>,
    pub(crate) steps: Vec<(engine::Phase, usize, usize)>,
}

impl engine::Sink for Record {
    fn event(&mut self, event: engine::Event<'_>) {
        match event {
            engine::Event::Prefix {
                request,
                own,
                instance,
                ..
            } => {
                self.prefix.insert(request, (own, instance));
            }
            engine::Event::Token { request, id, .. } => {
                self.tokens.entry(request).or_default().push(id);
            }
            engine::Event::Finish {
                request, logits, ..
            } => {
                self.last_logits.insert(request, logits.to_vec());
            }
            engine::Event::Step {
                phase,
                rows,
                requests,
            } => self.steps.push((phase, rows, requests)),
            engine::Event::Prefill { .. } => {}
        }
    }
}

pub(crate) fn options(kernels: engine::KernelChoice, threads: usize) -> engine::EngineOptions {
    engine::EngineOptions {
        mode: engine::Mode::Exact,
        kv_type: None,
        kernels,
        threads,
        chunk_tokens: 256,
        kv_pages: 512,
        cache: engine::CachePolicy::Shared,
        batched: true,
        shared_attention: true,
        ..engine::EngineOptions::default()
    }
}

/// Bits of floats, for comparisons that mean equal and not close.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Keys or values of one head of a page as q8_0, by its definition and nothing of the engine's.
pub(crate) struct Rounded {
    bytes: Vec<i8>,
    scales: Vec<u16>,
}

impl Rounded {
    /// Of keys `[head_dim][64]`.
    pub(crate) fn keys(keys: &[f32]) -> Self {
        Self::of(keys, |dim, slot| dim * PAGE_POSITIONS + slot)
    }

    /// Of values `[64][head_dim]`.
    pub(crate) fn values(values: &[f32]) -> Self {
        let head_dim = values.len() / PAGE_POSITIONS;
        Self::of(values, |dim, slot| slot * head_dim + dim)
    }

    /// Of a layer `[kv_heads][keys, values]`.
    pub(crate) fn layer(numbers: &[f32], head_dim: usize) -> Self {
        let size = head_dim * PAGE_POSITIONS;
        let heads = numbers.chunks_exact(2 * size);
        let halves =
            heads.flat_map(|head| [Self::keys(&head[..size]), Self::values(&head[size..])]);
        let (bytes, scales): (Vec<_>, Vec<_>) = halves.map(|it| (it.bytes, it.scales)).unzip();
        Self {
            bytes: bytes.concat(),
            scales: scales.concat(),
        }
    }

    /// What keys stand for, `[head_dim][64]`.
    pub(crate) fn key_numbers(&self) -> Vec<f32> {
        self.numbers(|i| (i / PAGE_POSITIONS, i % PAGE_POSITIONS))
    }

    /// What values stand for, `[64][head_dim]`.
    pub(crate) fn value_numbers(&self) -> Vec<f32> {
        let head_dim = self.bytes.len() / PAGE_POSITIONS;
        self.numbers(|i| (i % head_dim, i / head_dim))
    }

    /// Byte times scale; `place` gives dimension and slot.
    fn numbers(&self, place: impl Fn(usize) -> (usize, usize)) -> Vec<f32> {
        let number = |(i, byte): (usize, &i8)| {
            let (dim, slot) = place(i);
            let scale = f16::from_bits(self.scales[dim / 32 * PAGE_POSITIONS + slot]);
            f32::from(*byte) * scale.to_f32()
        };
        self.bytes.iter().enumerate().map(number).collect()
    }

    fn of(x: &[f32], place: impl Fn(usize, usize) -> usize) -> Self {
        let head_dim = x.len() / PAGE_POSITIONS;
        let (mut bytes, mut scales) = (vec![0; x.len()], Vec::new());
        for first in (0..head_dim).step_by(32) {
            for slot in 0..PAGE_POSITIONS {
                let places = (first..head_dim.min(first + 32)).map(|dim| place(dim, slot));
                let places: Vec<usize> = places.collect();
                let greatest = places.iter().map(|i| x[*i].abs()).fold(0.0, f32::max);
                let finite = places.iter().all(|i| x[*i].is_finite());
                let mut scale = f16::from_f32(greatest / 127.0);
                if !(finite && scale.is_finite()) {
                    scale = f16::NAN;
                }
                if scale > f16::ZERO {
                    for i in places {
                        bytes[i] = (x[i] * (127.0 / greatest)).round_ties_even() as i8;
                    }
                }
                scales.push(scale.to_bits());
            }
        }
        Self { bytes, scales }
    }

    pub(crate) fn view(&self) -> Quants<'_> {
        Quants {
            bytes: &self.bytes,
            scales: &self.scales,
        }
    }
}
