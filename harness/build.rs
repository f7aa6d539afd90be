//! Tells the program which compiler built it. Not here: anything about the source, which
//! `build_facts` reads when run.

use std::env;
use std::process::Command;

fn main() {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    println!("cargo::rustc-env=FAK_RUSTC={version}");
    println!("cargo::rerun-if-changed=build.rs");
}
