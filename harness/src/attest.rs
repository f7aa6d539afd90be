//! `harness attest`: an in-toto statement over a sealed run, signed with the user's ed25519 key.
//!
//! All of it is taken from the run, nothing from a clock or a machine, and ed25519 draws no numbers: the same run and key give
//! the same bytes. Not here: verifying one, which is `audit`'s work with code of its own.

mod key;
mod statement;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding};
use serde_json::json;

use crate::cli::AttestArguments;
use crate::error::Error;
use crate::files;
use crate::seal;
use crate::world::World;

/// What a payload is, as its signature covers it.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// What the file is called after its run.
const SUFFIX: &str = ".intoto.json";

/// Audits a sealed run and signs what it is; 4 where its evidence is broken.
pub fn attest(
    arguments: &AttestArguments,
    world: &World,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let directory = world.working_directory.join(&arguments.directory);
    seal::digest(&directory)?; // says best what is wrong with what is no sealed run
    let directory = fs::canonicalize(&directory)
        .map_err(|source| Error::io("cannot read", &directory, source))?;
    let key = key::read(&world.working_directory.join(&arguments.key), world)?;
    let asked = arguments.out.as_ref();
    let target = asked.map_or_else(|| beside(&directory), |it| world.working_directory.join(it));
    refuse_target(&target, &directory, world)?;
    let report = audit::audit_run(&directory);
    if report.exit_code() == 4 {
        write!(out, "{}", report.render())?;
        writeln!(
            out,
            "\nnot attested: only a run whose evidence holds is signed"
        )?;
        return Ok(4);
    }
    let statement = statement::of(&directory)?;
    let payload = statement.bytes();
    let keyid = key::id(&key);
    let envelope = json!({
        "payload": Base64::encode_string(&payload),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{ "keyid": keyid, "sig": Base64::encode_string(&key::sign(&key, &signed_bytes(&payload))) }],
    });
    let text = statement::sorted(&envelope) + "\n";
    files::write_atomically(&target, text.as_bytes())?;
    if arguments.json {
        let document = json!({
            "dir": directory, "file": target, "keyid": keyid, "subjects": statement.subjects,
        });
        writeln!(out, "{document:#}")?;
        return Ok(0);
    }
    let elsewhere = arguments.out.as_ref().map_or_else(String::new, |file| {
        format!(" --attestation {}", file.display())
    });
    writeln!(
        out,
        "attested {}: {} files, keyid {keyid}\n\nWhoever has the public key from you checks it with\n  {} audit {} --key PUBLIC.pem{elsewhere}\nand you \
         write that key with\n  openssl pkey -in {} -pubout -out PUBLIC.pem\nIt says who vouches for the run. Whether its clocks are right no \
         signature can say.",
        world.shown(&target),
        statement.subjects,
        world.command,
        arguments.directory.display(),
        arguments.key.display(),
    )?;
    Ok(0)
}

/// Type and payload with their lengths (DSSE's pre-authentication encoding).
fn signed_bytes(payload: &[u8]) -> Vec<u8> {
    let (kind, bytes) = (PAYLOAD_TYPE.len(), payload.len());
    let head = format!("DSSEv1 {kind} {PAYLOAD_TYPE} {bytes} ");
    [head.as_bytes(), payload].concat()
}

/// Beside the run, which nothing is ever added to.
fn beside(directory: &Path) -> PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(SUFFIX);
    directory.with_file_name(name)
}

fn refuse_target(target: &Path, directory: &Path, world: &World) -> Result<(), Error> {
    let shown = world.shown(target);
    if target.symlink_metadata().is_ok() {
        return Err(Error::Usage(format!(
            "{shown} is there already and never overwritten; give --out FILE"
        )));
    }
    let folder = target.parent().unwrap_or(target);
    let folder =
        fs::canonicalize(folder).map_err(|source| Error::io("cannot write in", folder, source))?;
    if folder.starts_with(directory) {
        return Err(Error::Usage(format!(
            "{shown} lies in the run, which is write-once; leave --out away and it is written beside it"
        )));
    }
    Ok(())
}
