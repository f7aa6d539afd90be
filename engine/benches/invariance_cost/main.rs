//! What the numeric contract costs: its AVX2 kernels against free ones that add in whatever order is fastest.
//!
//! Three sides do the same work on the same data in the same instruction set, agree to rounding and are timed in turns:
//! the contract's kernel; `free`'s code with one accumulator per output and one page at a time, as the contract has it;
//! the same code with several. contract/free is what a free engine would gain; order/free is what the order costs code
//! that does nothing about it, where the contract's kernel may: it multiplies two panels side by side. Below 1 the free
//! side is the slower one. Not here: threads, which split no sum in the contract and need not outside it; a whole engine
//! without the contract, which does not exist. Integer dots are exact in any order, and a product of many inputs fills
//! the registers with accumulators as it is: nothing to gain, no row.
#![allow(clippy::print_stdout)] // a bench says what it measured

#[path = "../common/mod.rs"]
mod common;
#[cfg(target_arch = "x86_64")]
mod free;
#[cfg(target_arch = "x86_64")]
mod table;

fn main() {
    #[cfg(target_arch = "x86_64")]
    if let Some(free) = free::Free::detected()
        && let Ok(kernels) = engine::kernels::Kernels::choose(engine::KernelChoice::Avx2)
    {
        return table::print(&kernels, free);
    }
    println!("not measured: the free kernels are written for AVX2, which this CPU lacks");
}
