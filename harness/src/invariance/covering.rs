//! Covering arrays of strength two: few combinations in which every pair of levels of any two factors meets.
//!
//! Greedy over the full product, so it suits products of thousands and no more. Not here: what the factors mean.

/// Every combination of level indexes, the last factor fastest.
pub(super) fn product(sizes: &[usize]) -> Vec<Vec<usize>> {
    sizes.iter().fold(vec![Vec::new()], |rows, &size| {
        let longer = |row: &Vec<usize>, level| [&row[..], &[level]].concat();
        let extended = rows
            .iter()
            .flat_map(|row| (0..size).map(move |level| longer(row, level)));
        extended.collect()
    })
}

/// Combinations that cover all pairs: again and again the one with the most pairs not seen yet, the first among equals.
pub(super) fn pairwise(sizes: &[usize]) -> Vec<Vec<usize>> {
    let all = product(sizes);
    let mut missing: std::collections::BTreeSet<Pair> =
        all.iter().flat_map(|row| pairs(row)).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let news = |row: &&Vec<usize>| pairs(row).filter(|pair| missing.contains(pair)).count();
        // `max_by_key` takes the last among equals, hence the reversal.
        let Some(best) = all.iter().rev().max_by_key(news) else {
            break;
        };
        for pair in pairs(best) {
            missing.remove(&pair);
        }
        chosen.push(best.clone());
    }
    chosen
}

/// Two factors, each with a level.
type Pair = ((usize, usize), (usize, usize));

fn pairs(row: &[usize]) -> impl Iterator<Item = Pair> {
    let factor = |(index, level): (usize, &usize)| (index, *level);
    let first = row.iter().enumerate().map(factor);
    first.flat_map(move |a| {
        row.iter()
            .enumerate()
            .skip(a.0 + 1)
            .map(move |b| (a, factor(b)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_levels_meets() {
        for sizes in [
            &[8, 3, 3, 3, 2][..],
            &[4, 4, 3, 2],
            &[2, 2],
            &[1, 1, 5],
            &[3],
        ] {
            let rows = pairwise(sizes);
            for (i, a) in sizes.iter().enumerate() {
                for (j, b) in sizes.iter().enumerate().skip(i + 1) {
                    let met = (0..*a).all(|x| {
                        (0..*b).all(|y| rows.iter().any(|row| (row[i], row[j]) == (x, y)))
                    });
                    assert!(met, "factors {i} and {j} of {sizes:?}");
                }
            }
            assert!(
                rows.iter()
                    .all(|row| row.iter().zip(sizes).all(|(level, size)| level < size))
            );
        }
    }

    #[test]
    fn the_array_is_small_and_begins_with_the_first_level_of_all() {
        // No array of these can have fewer rows than 8 times 3.
        let rows = pairwise(&[8, 3, 3, 3, 2, 2]);
        assert_eq!(rows.len(), 24);
        assert_eq!(rows[0], [0; 6]);
        assert_eq!(pairwise(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(product(&[2, 3]).len(), 6);
        assert_eq!(product(&[2, 3])[4], [1, 1]);
    }
}
