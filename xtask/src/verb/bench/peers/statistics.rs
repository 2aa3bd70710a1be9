//! The arithmetic of the report.

/// Returns the median, or `None` of nothing.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 0.5).map(|upper| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[sorted.len() / 2 - 1], sorted[sorted.len() / 2])
        } else {
            upper
        }
    })
}

/// Returns the value below which this share of the values is, or `None` of nothing.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts of values, far below 2^52, and a share between 0 and 1"
)]
pub(super) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share).round() as usize])
}

/// Returns the smallest and the largest value.
pub(super) fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Returns Jain's index of fairness: 1 if all have the same, 1/n if one has all. `None` if there is nothing to share.
#[allow(clippy::cast_precision_loss, reason = "a count of tasks")]
pub(super) fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Returns the median of the ratios of two contenders in the same rounds.
pub(super) fn ratio(ours: &[f64], others: &[f64]) -> Option<f64> {
    let pairs = ours.iter().zip(others).filter(|(_, other)| **other > 0.0);
    median(&pairs.map(|(own, other)| own / other).collect::<Vec<_>>())
}

/// Returns the times from the release of a process to the grant of another process, for holds of several processes:
/// pairs of a grant and the begin of its release.
pub(super) fn hand_overs(holds: &[Vec<(f64, f64)>]) -> Vec<f64> {
    let mut all: Vec<(f64, f64, usize)> = Vec::new();
    for (process, holds) in holds.iter().enumerate() {
        all.extend(holds.iter().map(|(granted, released)| (*granted, *released, process)));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let neighbors = all.windows(2).filter(|pair| pair[0].2 != pair[1].2);
    neighbors.map(|pair| pair[1].0 - pair[0].1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(found: Option<f64>, wanted: f64) -> bool {
        found.is_some_and(|found| (found - wanted).abs() < 1e-9)
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        assert!(is(median(&[3.0, 1.0, 2.0]), 2.0));
        assert!(is(median(&[4.0, 1.0, 2.0, 3.0]), 2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn percentiles_and_ranges_ignore_the_order() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert!(is(percentile(&values, 0.99), 99.0));
        assert!(is(percentile(&values, 1.0), 100.0));
        assert_eq!(range(&[2.0, -1.0, 5.0]), (-1.0, 5.0));
    }

    #[test]
    fn jain_is_one_for_equal_shares_and_one_nth_for_a_monopoly() {
        assert!(is(jain(&[5.0; 4]), 1.0));
        assert!(is(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_ratio_compares_rounds_and_not_medians() {
        // The second round was slow for both.
        assert!(is(ratio(&[20.0, 2.0, 20.0], &[10.0, 1.0, 10.0]), 2.0));
        assert!(is(ratio(&[6.0, 9.0], &[3.0, 0.0]), 2.0), "a round without a figure does not count");
        assert_eq!(ratio(&[1.0], &[]), None);
    }

    #[test]
    fn a_hand_over_lasts_from_a_release_to_the_other_processs_grant() {
        let one = vec![(0.0, 5.0), (12.0, 17.0), (18.0, 20.0)];
        let other = vec![(6.0, 11.0), (23.0, 25.0)];
        assert_eq!(hand_overs(&[one, other]), [1.0, 1.0, 3.0]);
    }
}
