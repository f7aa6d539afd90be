//! Facts of the machine as run.json states them.
//!
//! Not here: measuring what it can do (`ceilings`), and the facts of the build (`build_facts`).

pub mod ceilings;
pub mod noise;

use std::fs;
use std::io::Write;
use std::time::Duration;

use workloads::record::{CeilingsRecord, MachineRecord};

use crate::error::Error;

/// Every instruction set extension that may matter to a reader, present on this CPU.
fn instruction_sets() -> Vec<String> {
    let mut found: Vec<&str> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let probes = [
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("fma", std::arch::is_x86_feature_detected!("fma")),
            ("f16c", std::arch::is_x86_feature_detected!("f16c")),
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
            ("avx512bw", std::arch::is_x86_feature_detected!("avx512bw")),
            (
                "avx512vnni",
                std::arch::is_x86_feature_detected!("avx512vnni"),
            ),
        ];
        found.extend(probes.iter().filter(|probe| probe.1).map(|probe| probe.0));
    }
    #[cfg(target_arch = "aarch64")]
    found.push("neon"); // part of the base architecture
    found.into_iter().map(str::to_owned).collect()
}

/// Architecture, widest vector extension and cores: runs are compared within a class only.
fn class(isa: &[String], cores: usize) -> String {
    let has = |name: &str| isa.iter().any(|known| known == name);
    let widest = match std::env::consts::ARCH {
        "x86_64" if has("avx512f") => "avx512",
        "x86_64" if has("avx2") => "avx2",
        "x86_64" => "sse2",
        "aarch64" => "neon",
        _ => "scalar",
    };
    format!("{}-{widest}-{cores}c", std::env::consts::ARCH)
}

/// The value of `key` in a `key : value` listing such as /proc/cpuinfo.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// `field` of a memory listing, in bytes; the kernel counts in units of 1024.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    field(text, key)?
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// This machine, with `cores` usable ones.
pub fn facts(cores: usize) -> MachineRecord {
    let isa = instruction_sets();
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    MachineRecord {
        class: class(&isa, cores),
        cpu: field(&processors, "model name")
            .unwrap_or("unknown")
            .to_owned(),
        isa,
        cores,
        memory_bytes: kibibytes(&memory, "MemTotal").unwrap_or(0),
        os: std::env::consts::OS.to_owned(),
        ceilings: None, // measuring takes seconds: asked for, never had by the way
    }
}

/// What is spent on ceilings; the buffer and the repetitions begun come on top.
const BUDGET: Duration = Duration::from_secs(6);

/// What the machine can do at best with up to `threads` threads, measured now.
pub fn measured_ceilings(threads: usize) -> CeilingsRecord {
    ceilings::measure(threads, BUDGET).record()
}

/// Prints the facts and the ceilings, measured now.
pub fn print(as_json: bool, cores: usize, out: &mut dyn Write) -> Result<u8, Error> {
    let mut facts = facts(cores);
    let measured = ceilings::measure(cores, BUDGET);
    facts.ceilings = Some(measured.record());
    if as_json {
        let mut document = serde_json::json!(facts);
        document["ceilings_spread"] = measured.spread();
        writeln!(out, "{document:#}")?;
        return Ok(0);
    }
    writeln!(out, "class   {}", facts.class)?;
    writeln!(out, "cpu     {}", facts.cpu)?;
    writeln!(out, "isa     {}", facts.isa.join(" "))?;
    writeln!(out, "cores   {}", facts.cores)?;
    writeln!(out, "memory  {}", crate::table::size(facts.memory_bytes))?;
    writeln!(out, "os      {}", facts.os)?;
    write!(out, "\n{}", measured.render())?;
    Ok(0)
}

/// Bytes of the largest cache of the first core, where the system tells.
fn cache_bytes() -> Option<u64> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size_bytes = |cache: fs::DirEntry| {
        let text = fs::read_to_string(cache.path().join("size")).ok()?;
        text.trim()
            .strip_suffix('K')?
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    };
    caches.flatten().filter_map(size_bytes).max()
}

/// One-minute load average, where the system tells.
pub fn load1() -> Option<f64> {
    fs::read_to_string("/proc/loadavg")
        .ok()?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Identifier of the running boot, where the system tells.
pub fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// Peak resident memory of this process, where the system tells.
pub fn resident_bytes_peak() -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read_by_exact_key() {
        let text = "model\t: 1\nmodel name\t: A CPU : B\nMemTotal:       2048 kB\n";
        assert_eq!(field(text, "model name"), Some("A CPU : B"));
        assert_eq!(kibibytes(text, "MemTotal"), Some(2_097_152));
        assert_eq!(field("", "model name"), None);
    }

    #[test]
    fn the_class_names_the_widest_extension() {
        let named = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        if std::env::consts::ARCH == "x86_64" {
            assert_eq!(class(&named(&["avx2", "avx512f"]), 2), "x86_64-avx512-2c");
            assert_eq!(class(&named(&["avx2", "fma"]), 8), "x86_64-avx2-8c");
            assert_eq!(class(&[], 1), "x86_64-sse2-1c");
        }
    }
}
