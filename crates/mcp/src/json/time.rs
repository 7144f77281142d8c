//! Wall times as text.

use procession_core::WallTime;

const DAY_MS: u64 = 86_400_000;

/// A wall time as RFC 3339 text in UTC with milliseconds, for example `2025-01-31T23:59:59.999Z`.
///
/// Counts days of the proleptic Gregorian calendar, without leap seconds, as Unix time does.
#[must_use]
pub fn rfc3339(time: WallTime) -> String {
    let millis = time.unix_millis();
    let (year, month, day) = civil(millis / DAY_MS);
    let of_day = millis % DAY_MS;
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        of_day % 1000
    )
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, so that the leap day is a year's last and months have a regular pattern.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_time_is_told_in_utc() {
        let check =
            |millis, expected: &str| assert_eq!(rfc3339(WallTime::from_unix_millis(millis)), expected);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(951_868_800_000, "2000-03-01T00:00:00.000Z");
        check(1_704_067_199_000, "2023-12-31T23:59:59.000Z");
        check(1_796_095_021_042, "2026-12-01T03:17:01.042Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn the_last_time_that_can_be_told_does_no_harm() {
        assert!(rfc3339(WallTime::from_unix_millis(u64::MAX)).ends_with('Z'));
    }
}
