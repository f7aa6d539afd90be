//! Sampling as a function: the slow twin, chance, hostile parameters.
//!
//! The golden vectors are in `sampling_golden.rs`, streams of a whole engine in `sampling_streams.rs`.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

use engine::sample::{choose, filter, generator, logprobs, probabilities};
use engine::{Logprob, SamplingParams};

/// Logits that tie often, from a fixed seed.
fn made_up_logits(seed: u64, len: usize) -> Vec<f32> {
    let level = |i: usize| (generator::bits(seed, i as u64) % 97) as f32;
    (0..len).map(|i| (level(i) - 48.0) / 8.0).collect()
}

#[test]
fn top_p_keeps_what_sorting_everything_keeps() {
    for seed in 0..400 {
        let scores: Vec<f64> = made_up_logits(seed, 100)
            .into_iter()
            .map(f64::from)
            .collect();
        let p = generator::uniform(seed, 1 << 40).max(1e-3) as f32;
        let mut found = scores.clone();
        filter::top_p(&mut found, p);
        let chance = filter::softmax(&scores);
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(b.cmp(a)));
        let mut sum = 0.0;
        let dropped = order[..99].iter().take_while(|id| {
            sum += chance[**id];
            sum <= 1.0 - f64::from(p)
        });
        let mut expected = scores.clone();
        dropped.for_each(|id| expected[*id] = f64::NEG_INFINITY);
        assert_eq!(found, expected, "seed {seed}, p {p}");
    }
}

#[test]
fn ties_at_every_cut_keep_the_lower_ids_or_all() {
    let logits = [1.0, 2.0, 2.0, 2.0, 0.0];
    let kept = |params: &SamplingParams| -> Vec<usize> {
        let chance = probabilities(params, &[], &[], &logits);
        (0..5).filter(|id| chance[*id] > 0.0).collect()
    };
    let warm = SamplingParams {
        temperature: 1.0,
        ..SamplingParams::default()
    };
    assert_eq!(
        kept(&SamplingParams {
            top_k: Some(2),
            ..warm.clone()
        }),
        [1, 2, 3]
    );
    assert_eq!(
        kept(&SamplingParams {
            top_p: 0.5,
            ..warm.clone()
        }),
        [1, 2]
    );
    assert_eq!(
        kept(&SamplingParams {
            min_p: 1.0,
            ..warm.clone()
        }),
        [1, 2, 3]
    );
    assert_eq!(
        kept(&SamplingParams {
            top_p: f32::MIN_POSITIVE,
            ..warm
        }),
        [1]
    );
    assert_eq!(kept(&SamplingParams::default()), [1]);
}

/// `count` draws at positions 0, 1, 2, ... of a text without penalties.
fn draws(params: &SamplingParams, logits: &[f32], count: usize) -> Vec<u32> {
    let text = vec![0; count];
    (0..count)
        .map(|n| choose(params, &[], &text[..n], logits).unwrap())
        .collect()
}

#[test]
fn draws_follow_their_own_probabilities() {
    let logits = made_up_logits(3, 40);
    let params = SamplingParams {
        temperature: 2.0,
        top_k: Some(25),
        seed: 11,
        ..Default::default()
    };
    let chance = probabilities(&params, &[], &[], &logits);
    let ids = draws(&params, &logits, 40_000);
    let (mut statistic, mut cells) = (0.0, 0);
    for (id, chance) in chance.iter().enumerate() {
        let seen = ids.iter().filter(|drawn| **drawn == id as u32).count() as f64;
        let expected = chance * ids.len() as f64;
        assert_eq!(
            seen == 0.0,
            expected == 0.0,
            "id {id}: {seen} of {expected}"
        );
        if expected > 0.0 {
            assert!(expected > 5.0, "too rare for the test: {expected}");
            statistic += (seen - expected).powi(2) / expected;
            cells += 1;
        }
    }
    let freedom = f64::from(cells - 1);
    // Mean and four standard deviations of a chi-square.
    assert!(
        statistic < freedom + 4.0 * (2.0 * freedom).sqrt(),
        "{statistic} of {freedom}"
    );
}

#[test]
fn neighbouring_seeds_and_positions_are_not_alike() {
    let logits = vec![0.0; 16];
    let of_seed = |seed| {
        let params = SamplingParams {
            temperature: 1.0,
            seed,
            ..Default::default()
        };
        draws(&params, &logits, 4096)
    };
    let (first, second) = (of_seed(1), of_seed(2));
    let equal = |a: &[u32], b: &[u32]| a.iter().zip(b).filter(|(a, b)| a == b).count();
    // One in sixteen by chance: 256 of 4096, give or take five standard deviations of 15.5.
    for count in [
        equal(&first, &second),
        equal(&first[1..], &second),
        equal(&first[1..], &first),
    ] {
        assert!((178..334).contains(&count), "{count}");
    }
    assert_eq!(first, of_seed(1));
}

#[test]
fn a_vanishing_temperature_is_greedy() {
    for seed in 0..50 {
        let mut logits = made_up_logits(seed, 64);
        logits[(seed % 64) as usize] = 20.0;
        let greedy = choose(&SamplingParams::default(), &[], &[], &logits);
        for temperature in [1e-3, f32::MIN_POSITIVE, 1e-45] {
            let params = SamplingParams {
                temperature,
                seed,
                ..Default::default()
            };
            assert_eq!(choose(&params, &[], &[], &logits), greedy);
        }
    }
}

#[test]
fn extreme_numbers_stay_numbers() {
    let logits = [f32::MAX, f32::MIN, 0.0, 1e-45];
    let params = SamplingParams {
        temperature: 1e-45,
        repetition_penalty: 1e-45,
        presence_penalty: f32::MAX,
        frequency_penalty: f32::MIN,
        logit_bias: [(0, f32::MAX), (1, f32::NEG_INFINITY)].into(),
        top_p: 0.5,
        min_p: 1e-45,
        ..Default::default()
    };
    let chance = probabilities(&params, &[0, 1, 2, 3], &[0, 1, 1, 3], &logits);
    assert_eq!(chance, [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn penalties_count_prompt_and_output_as_the_parameter_says() {
    let choice = |params: &SamplingParams, prompt: &[u32], output: &[u32]| {
        choose(params, prompt, output, &[2.0, 1.5, 0.1]).unwrap()
    };
    let repetition = SamplingParams {
        repetition_penalty: 2.0,
        ..Default::default()
    };
    assert_eq!(choice(&repetition, &[], &[]), 0);
    assert_eq!(choice(&repetition, &[0], &[]), 1);
    let presence = SamplingParams {
        presence_penalty: 0.6,
        ..Default::default()
    };
    assert_eq!(choice(&presence, &[0, 0], &[]), 0);
    assert_eq!(choice(&presence, &[], &[0]), 1);
    let frequency = SamplingParams {
        frequency_penalty: 0.3,
        ..Default::default()
    };
    assert_eq!(choice(&frequency, &[], &[0]), 0);
    assert_eq!(choice(&frequency, &[], &[0, 0]), 1);
    let bias = SamplingParams {
        logit_bias: [(0, f32::NEG_INFINITY), (2, 1.5)].into(),
        ..Default::default()
    };
    assert_eq!(choice(&bias, &[], &[]), 2);
}

#[test]
fn logprobs_are_the_log_softmax_of_raw_logits_and_sum_to_one() {
    let logits = made_up_logits(9, 64);
    let all = logprobs(&logits, 5, 64);
    assert_eq!((all.len(), all[0].id), (65, 5));
    let chance = filter::softmax(&logits.iter().map(|it| f64::from(*it)).collect::<Vec<_>>());
    let sum: f64 = all[1..].iter().map(|it| it.logprob.exp()).sum();
    assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    for Logprob { id, logprob } in &all {
        assert!((logprob.exp() - chance[*id as usize]).abs() < 1e-12);
    }
    let descending = |a: &Logprob, b: &Logprob| {
        let key = |it: &Logprob| logits[it.id as usize];
        key(b).total_cmp(&key(a)).then(a.id.cmp(&b.id)).is_lt()
    };
    assert!(all[1..].is_sorted_by(descending));
    assert_eq!(logprobs(&logits, 5, 3), all[..4]);
    assert_eq!(logprobs(&logits, 5, 0), all[..1]);
    let ids = |top: &[Logprob]| top.iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(ids(&logprobs(&[-0.0, 0.0, 0.0], 2, 2)), [2, 0, 1]);
}

#[test]
fn parameters_outside_their_range_are_refused_by_name() {
    type Change = fn(&mut SamplingParams);
    let cases: [(Change, &str); 17] = [
        (
            |it| it.temperature = -0.1,
            "temperature is -0.1; it must be 0 or more and finite",
        ),
        (|it| it.temperature = f32::NAN, "temperature is NaN"),
        (|it| it.temperature = f32::INFINITY, "temperature is inf"),
        (|it| it.top_k = Some(0), "top_k is 0; it must be 1 or more"),
        (
            |it| it.top_p = 0.0,
            "top_p is 0; it must be above 0 and at most 1",
        ),
        (|it| it.top_p = 1.1, "top_p is 1.1"),
        (|it| it.top_p = f32::NAN, "top_p is NaN"),
        (|it| it.min_p = -1.0, "min_p is -1; it must be 0 to 1"),
        (|it| it.min_p = f32::NAN, "min_p is NaN"),
        (
            |it| it.repetition_penalty = 0.0,
            "repetition_penalty is 0; it must be above 0",
        ),
        (
            |it| it.repetition_penalty = f32::INFINITY,
            "repetition_penalty is inf",
        ),
        (
            |it| it.presence_penalty = f32::NAN,
            "presence_penalty is NaN; it must be finite",
        ),
        (
            |it| it.frequency_penalty = f32::INFINITY,
            "frequency_penalty is inf",
        ),
        (
            |it| it.logprobs = Some(257),
            "logprobs is 257; it must be at most the vocabulary of 256",
        ),
        (
            |it| it.stop_ids = vec![1, 256],
            "stop id is 256; it must be below the vocabulary",
        ),
        (
            |it| it.logit_bias = [(u32::MAX, 0.0)].into(),
            "logit_bias id is 4294967295",
        ),
        (
            |it| it.logit_bias = [(3, f32::NAN)].into(),
            "logit_bias is NaN; it must be finite or -inf (id 3)",
        ),
    ];
    for (change, expected) in cases {
        let mut params = SamplingParams::default();
        change(&mut params);
        let message = params.check(256).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_bias_may_forbid_every_id_but_one() {
    let forbid = |ids: u32| SamplingParams {
        logit_bias: (0..ids).map(|id| (id, f32::NEG_INFINITY)).collect(),
        ..Default::default()
    };
    assert!(
        forbid(256)
            .check(256)
            .unwrap_err()
            .to_string()
            .contains("every id")
    );
    forbid(255).check(256).unwrap();
    assert_eq!(choose(&forbid(3), &[], &[], &[5.0, 5.0, 5.0, 0.0]), Ok(3));
    SamplingParams {
        top_k: Some(usize::MAX),
        ..Default::default()
    }
    .check(256)
    .unwrap();
}
