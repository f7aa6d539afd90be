//! What the model found, as small as it gets.
//!
//! Not here: anything that only a long story shows (`main`).

use engine::kv::Eviction;
use engine::schedule::CachePolicy;

use super::oracle::{Text, Who};
use super::steps::Step;
use super::world::{Setting, World};

fn world(capacity: Option<usize>) -> World {
    World::new(Setting {
        policy: CachePolicy::Shared,
        eviction: Eviction::Lru,
        capacity,
    })
}

/// A prompt of `len` positions; longer ones go on from shorter ones.
fn text(session: u64, public: Option<(u64, usize)>, len: u32) -> Text {
    let tokens: Vec<u32> = (0..len).map(|at| at * at % 3).collect();
    let who = Who {
        public,
        ..Who::of(session, 0)
    };
    Text::new(CachePolicy::Shared, who, session, &tokens)
}

/// A session computes a text and is idle.
fn leave(world: &mut World, text: &Text) {
    world.start(text.clone(), 0, 0);
    let (flight, count) = (world.flights.len() as u8 - 1, u8::MAX);
    world.step(&Step::Append { flight, count });
    let pending = None;
    world.step(&Step::Finish { flight, pending });
}

/// Moves what follows the first position of a session's text.
fn cut(world: &mut World, session: u8) {
    world.step(&Step::Cut {
        session,
        start: 1,
        len: 0,
        rotate: true,
    });
}

#[test]
fn taking_a_span_out_leaves_the_page_in_which_another_sessions_text_ends() {
    let mut world = world(None);
    let shorter = text(0, None, 100);
    leave(&mut world, &shorter);
    leave(&mut world, &text(3, None, 120));
    cut(&mut world, 3);
    assert_eq!(world.peek(&shorter), 100);
}

#[test]
fn taking_a_span_out_leaves_a_public_page_to_other_tenants() {
    let mut world = world(None);
    let public = Some((9, 64));
    let theirs = text(0, public, 64);
    leave(&mut world, &theirs);
    leave(&mut world, &text(1, public, 64));
    cut(&mut world, 1);
    assert_eq!(world.peek(&theirs), 64);
}

#[test]
fn a_request_that_cannot_be_admitted_yet_costs_nobody_a_page() {
    let mut world = world(Some(5));
    let idle = text(0, None, 100);
    leave(&mut world, &idle);
    world.start(text(1, None, 150), 0, 0);
    world.start(text(2, None, 200), 0, 0);
    assert_eq!(
        world.flights.len(),
        1,
        "three pages are promised, four needed"
    );
    assert_eq!(world.peek(&idle), 100);
}
