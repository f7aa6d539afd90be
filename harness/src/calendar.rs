//! Dates of run directories, from seconds since 1970 in UTC. Not here: any clock.

/// Year, month and day of a moment, in the proleptic Gregorian calendar.
fn civil(unix_s: u64) -> (u64, u64, u64) {
    let mut days = unix_s / 86_400;
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// `yyyymmdd`, as local runs are named.
pub fn compact(unix_s: u64) -> String {
    let (year, month, day) = civil(unix_s);
    format!("{year:04}{month:02}{day:02}")
}

/// `yyyy-mm-dd`, as anchored runs are named.
pub fn dashed(unix_s: u64) -> String {
    let (year, month, day) = civil(unix_s);
    format!("{year:04}-{month:02}-{day:02}")
}

/// `yyyy-mm-ddThh:mm:ssZ`, as RFC 3339 writes a moment.
pub fn moment(unix_s: u64) -> String {
    let second = unix_s % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", dashed(unix_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_their_dates() {
        for (unix_s, date) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(dashed(unix_s), date);
            assert_eq!(compact(unix_s), date.replace('-', ""));
        }
        assert_eq!(moment(951_827_696), "2000-02-29T12:34:56Z");
    }
}
