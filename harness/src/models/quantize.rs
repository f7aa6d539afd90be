//! `model quantize`: a registered model written again in another type, under the name `NAME-TYPE`.
//!
//! Not here: the arithmetic, which is the engine's and deterministic.

use std::fs;

use engine::DType;
use workloads::models::Source;

use super::{Registration, missing, named, register, registration};
use crate::error::Error;
use crate::files;
use crate::world::World;

/// Quantises `name` unless that was done and the file is intact; says which.
pub fn quantize(name: &str, to: &str, world: &World) -> Result<String, Error> {
    let model = named(name)?;
    if matches!(model.source, Source::Synthetic {}) {
        return Err(Error::Usage(format!(
            "`{name}` is built in, so there is no file to quantise; give a model that was pulled, such \
             as smollm2-135m, or take a built-in type (`harness model list`)"
        )));
    }
    let dtype: DType = to.parse().map_err(Error::Usage)?;
    let Some((input, source)) = registration(name, world)? else {
        return Err(missing(name, &model, world));
    };
    let target_name = format!("{name}-{to}");
    let pinned = workloads::models::named(&target_name)
        .ok()
        .and_then(|model| model.sha256);
    if let Some((path, known)) = registration(&target_name, world)?
        && files::file_sha256(&path)? == *pinned.as_ref().unwrap_or(&known.sha256)
    {
        return Ok(format!(
            "{target_name} is already here and intact: {}",
            path.display()
        ));
    }
    let directory = world.model_directory(&target_name)?;
    files::create_directories(&directory)?;
    let target = directory.join("model.gguf");
    let temporary = files::temporary_name(&target);
    world.say(&format!("quantising {name} to {to}, some seconds"));
    let _ = fs::remove_file(&temporary); // of a quantisation that was stopped
    engine::quantize_gguf(&input, &temporary, dtype)?;
    let found = files::file_sha256(&temporary)?;
    let failed = |source| Error::io("cannot write", &target, source);
    if let Some(expected) = pinned.filter(|expected| *expected != found) {
        fs::remove_file(&temporary).map_err(failed)?;
        let what = format!("{name} quantised to {to}");
        let next = format!("the file was deleted; try `harness model verify {name}` first");
        return Err(Error::WrongDigest {
            what,
            expected,
            found,
            next,
        });
    }
    fs::File::open(&temporary)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&temporary, &target))
        .and_then(|()| files::sync_directory(&directory))
        .map_err(failed)?;
    let registration = Registration {
        name: target_name.clone(),
        sha256: found.clone(),
        source: format!("{name} (sha256 {}) quantised to {to}", source.sha256),
        licence: source.licence,
        label: source.label,
    };
    register(&directory, &registration)?;
    Ok(format!(
        "{target_name} is here: {}\nsha256 {found}",
        target.display()
    ))
}
